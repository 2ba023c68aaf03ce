"""Conversion of strings and integers on the command line without Pydantic.

Typer loads Pydantic to convert any argument, even a string. With Pydantic, a short command would
start later, and a server would use about 8 MB more.
"""

from typing import Any

from typer.core import TyperArgument, TyperOption

_CONVERSIONS_OF_TYPER = {each: each.get_runtime_param for each in (TyperOption, TyperArgument)}


def convert_without_pydantic() -> None:
    """Let all commands convert their arguments as this module does."""
    for parameter_type in _CONVERSIONS_OF_TYPER:
        parameter_type.get_runtime_param = _conversion  # type: ignore[method-assign, assignment]


class _PlainConversion:
    """Converts texts and whole numbers itself, and leaves all other values to Typer."""

    @staticmethod
    def coerce(value: Any, param: Any, ctx: Any) -> Any:
        kind, info = param.type_descriptor.annotation, param.type_descriptor.parameter_info
        if value is None and not (param.multiple or param.nargs == -1):
            return None
        if kind is str and isinstance(value, str):
            return value
        if kind is int and _is_number_between(value, info.min, info.max):
            return int(value)
        return _CONVERSIONS_OF_TYPER[type(param)](param).coerce(value, param=param, ctx=ctx)


def _conversion(_parameter: Any) -> Any:
    return _PlainConversion


def _is_number_between(value: Any, lowest: int | None, highest: int | None) -> bool:
    """Return whether this is a valid number; Typer explains what is wrong with all others."""
    text = str(value)
    return (
        text.isascii()
        and text.isdecimal()
        and (lowest is None or int(text) >= lowest)
        and (highest is None or int(text) <= highest)
    )
