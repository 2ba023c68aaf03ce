"""Packages that few processes need are imported when they are needed, to keep the start fast."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

LATE_PACKAGES = (
    *("cbor2", "markdown_it", "opentelemetry", "prometheus_client"),
    *("pydantic", "segno", "webauthn"),
)


def test_neither_the_service_nor_a_command_imports_them_at_the_start() -> None:
    """Passkeys, traces, metrics, documents and QR codes cost nothing until one is asked for."""
    program = (
        "import sys; from ousel.cli.command_table import load_commands; load_commands();"
        "from ousel.app.ousel import Ousel;"
        "from ousel.kernel.settings import Settings; Ousel(Settings());"
        f"print([name for name in sys.modules if name.startswith({LATE_PACKAGES})])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"[]\n"
