"""Generates clients from the OpenAPI document, and compiles programs that use them.

Each function returns the command that runs the program. If a tool is missing and cannot be
downloaded, the test is skipped.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support import node
from tests.support.node import ROOT

HERE = Path(__file__).parents[1]
JARS = ROOT / ".build" / "generated-clients"
SECONDS_MAX = 900
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # each program runs for seconds
COPY_JARS = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
# openapi-generator says this of every document in OpenAPI 3.1.
ABOUT_ITSELF = "OpenAPI 3.1 support is still in beta."

Command = Sequence[str | Path]
Build = Callable[[Path, Path], Command]


def build_typescript(document: Path, folder: Path) -> Command:
    """Generate types with openapi-typescript, and check a program that uses them."""
    shutil.copytree(HERE / "typescript", folder, dirs_exist_ok=True)
    generated = node.run("openapi-typescript", str(document), "-o", "types.ts", folder=folder)
    assert generated.returncode == 0, generated.stderr
    assert "warn" not in f"{generated.stdout}{generated.stderr}".lower()
    strictly = (
        *("--strict", "--noUncheckedIndexedAccess"),
        *("--allowImportingTsExtensions", "--skipDefaultLibCheck"),
    )
    modern = ("--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom,dom.iterable")
    compiled = node.run("tsc", *strictly, *modern, "--noEmit", "journey.ts", folder=folder)
    assert compiled.returncode == 0, compiled.stdout
    return node.NODE, folder / "journey.ts"


def build_go(document: Path, folder: Path) -> Command:
    """Generate a client with oapi-codegen, and compile a program that uses it."""
    _need("go")
    shutil.copytree(HERE / "go", folder, dirs_exist_ok=True)
    (folder / "ousel").mkdir()
    _download("go", "mod", "download", folder=folder)
    generated = _run(
        "go", "tool", "oapi-codegen", "-config", "oapi-codegen.yaml", document, folder=folder
    )
    assert generated == "", generated
    _run("go", "build", "-o", "journey", ".", folder=folder)
    return (folder / "journey",)


def build_java(document: Path, folder: Path) -> Command:
    """Generate a client with openapi-generator for Java, and compile a program that uses it."""
    _need("java", "javac", "mvn")
    _generate(document, folder, "java", "--library", "native")
    sources = sorted(folder.rglob("src/main/**/*.java"))
    options = ("-nowarn", "-proc:none", "-cp", JARS / "*", "-d", folder / "built")
    _run("javac", *options, *sources, HERE / "jvm" / "Journey.java", folder=folder)
    return "java", *QUICK_START, "-cp", f"{folder / 'built'}:{JARS}/*", "Journey"


def build_kotlin(document: Path, folder: Path) -> Command:
    """Generate a client with openapi-generator for Kotlin, and compile a program that uses it."""
    _need("java", "mvn")
    _generate(document, folder, "kotlin", "--additional-properties=serializationLibrary=jackson")
    jars = ":".join(map(str, sorted(JARS.glob("*.jar"))))
    compiler = ("-cp", f"{JARS}/*", "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler")
    options = ("-nowarn", "-no-stdlib", "-no-reflect", "-cp", jars, "-d", folder / "built")
    sources = (folder / "src" / "main", HERE / "jvm" / "Journey.kt")
    _run("java", *QUICK_START, *compiler, *options, *sources, folder=folder)
    return "java", *QUICK_START, "-cp", f"{folder / 'built'}:{JARS}/*", "JourneyKt"


BUILDS: dict[str, Build] = {
    "typescript": build_typescript,
    "go": build_go,
    "java": build_java,
    "kotlin": build_kotlin,
}


def _generate(document: Path, folder: Path, language: str, *options: str) -> None:
    """Generate a client with openapi-generator, which must not warn about the document."""
    _copy_jars()
    [generator] = JARS.glob("openapi-generator-cli-*.jar")
    without = "apiTests=false,modelTests=false,apiDocs=false,modelDocs=false"
    said = _run(
        *("java", *QUICK_START, "-jar", generator, "generate", "-i", document, "-o", folder),
        *("-g", language, *options, "--global-property", f"apis,models,supportingFiles,{without}"),
        folder=folder,
    )
    warnings = [line for line in said.splitlines() if "WARN" in line or "ERROR" in line]
    assert [line for line in warnings if ABOUT_ITSELF not in line] == []


def _copy_jars() -> None:
    """Download what the pom.xml pins, unless it is there."""
    pins = HERE / "jvm" / "pom.xml"
    stamp = JARS / "pins"
    digest = hashlib.sha256(pins.read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == digest:
        return
    shutil.rmtree(JARS, ignore_errors=True)
    JARS.mkdir(parents=True)
    _download("mvn", "-q", "-B", "-f", pins, COPY_JARS, f"-DoutputDirectory={JARS}", folder=JARS)
    stamp.write_text(digest)


def _need(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


def _download(*command: str | Path, folder: Path) -> None:
    done = _completed(command, folder)
    if done.returncode:
        reason = (done.stdout.strip().splitlines() or ["no reason given"])[0]
        pytest.skip(f"{command[0]} could not download what it needs: {reason[:200]}")


def _run(*command: str | Path, folder: Path) -> str:
    """Run a command that must succeed, and return what it printed."""
    done = _completed(command, folder)
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


def _completed(command: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(map(str, command)),
        check=False,
        cwd=folder,
        env=os.environ | {"NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS_MAX,
    )
