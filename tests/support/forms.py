"""The forms of a page, read as a browser reads them."""

import re
from html.parser import HTMLParser

import msgspec
from typing_extensions import override

_FORM = re.compile("<form.*?</form>", re.DOTALL)


class Form(msgspec.Struct):
    """A form: its address, its fields with their values, and what each button adds to them."""

    action: str
    method: str
    fields: dict[str, str] = {}
    buttons: dict[str, dict[str, str]] = {}

    def pressed(self, button: str, filled: dict[str, str]) -> dict[str, str]:
        """Return the fields that are sent if these are filled in and this button is pressed."""
        unknown = filled.keys() - self.fields
        assert not unknown, f"the form has no {unknown}"
        return self.fields | filled | self.buttons[button]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self._inside: Form | None = None
        self._select: str | None = None
        self._textarea: str | None = None
        self._button: dict[str, str] | None = None
        self._said = ""

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._inside = Form(given["action"], given.get("method", "get"))
            self.forms.append(self._inside)
        elif self._inside is None:
            return
        elif tag in {"input", "textarea"} and "name" in given:
            self._inside.fields[given["name"]] = given.get("value", "")
            self._textarea, self._said = given["name"] if tag == "textarea" else None, ""
        elif tag == "select":
            self._select = given["name"]
        elif tag == "option" and self._select is not None:
            if "selected" in given or self._select not in self._inside.fields:
                self._inside.fields[self._select] = given["value"]
        elif tag == "button":
            self._button = {given["name"]: given.get("value", "")} if "name" in given else {}
            self._said = ""

    @override
    def handle_data(self, data: str) -> None:
        self._said += data

    @override
    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._inside = None
        elif tag == "select":
            self._select = None
        elif tag == "textarea" and self._textarea is not None and self._inside is not None:
            self._inside.fields[self._textarea] = self._said
            self._textarea = None
        elif tag == "button" and self._button is not None and self._inside is not None:
            self._inside.buttons[self._said.strip()] = self._button
            self._button = None


def forms_of(html: str) -> list[Form]:
    """Return the forms of a page, in the order of the page."""
    reader = _Reader()
    for form in _FORM.findall(html):  # the rest of a page, much longer, holds nothing to fill in
        reader.feed(form)
    return reader.forms


def form_with(html: str, button: str) -> Form:
    """Return the first form that has a button with this text."""
    forms = forms_of(html)
    for form in forms:
        if button in form.buttons:
            return form
    raise AssertionError(f"no form says {button}: {[list(form.buttons) for form in forms]}")
