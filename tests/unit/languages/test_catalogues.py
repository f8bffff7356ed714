"""The catalogues: each text of the code is translated, with the same placeholders; none is left over."""

import re

import polib
import pytest

from app.languages.catalogues import CHINESE, CONSOLE, LANGUAGES, N_, po_file, texts_of
from app.languages.language_tags import language_of_environment
from scripts.docs.texts import SOURCES, texts_in

PLACEHOLDER = re.compile(r"%(?:\((\w+)\)s|%)|\{\}|</?\w+")


@pytest.mark.parametrize("domain", sorted(SOURCES))
def test_each_text_of_the_code_is_in_the_catalogue(domain: str) -> None:
    found = {(one.msgid, one.msgid_plural) for one in polib.pofile(str(po_file(domain, CHINESE)))}
    assert found == texts_in(domain).keys(), "python -m scripts.docs.texts"


@pytest.mark.parametrize("domain", sorted(SOURCES))
def test_each_text_is_translated_with_its_placeholders_and_tags(domain: str) -> None:
    for one in polib.pofile(str(po_file(domain, CHINESE))):
        translated = one.msgstr_plural[0] if one.msgid_plural else one.msgstr
        assert translated.strip(), one.msgid
        assert not one.fuzzy, one.msgid
        wanted = {found[0] for found in PLACEHOLDER.finditer(one.msgid_plural or one.msgid)}
        assert {found[0] for found in PLACEHOLDER.finditer(translated)} == wanted, one.msgid


def test_texts_with_values_and_numbers() -> None:
    for language in LANGUAGES:
        texts = texts_of(CONSOLE, language)
        assert texts.language == language
        assert "10.0.0.1" in texts.gettext("%(address)s is DOWN.", address="10.0.0.1")
        one, more = "%(count)s unhealthy instance.", "%(count)s unhealthy instances."
        assert [texts.ngettext(one, more, count, count=count)[0] for count in (1, 2)] in (["1", "2"], ["有", "有"])
        assert texts.gettext("") == ""
        assert texts.gettext(N_("a text that nobody translated, 100 %")) == "a text that nobody translated, 100 %"


@pytest.mark.parametrize(
    ("environ", "language"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh-CN"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C.UTF-8", "LANGUAGE": "zh"}, "en"),
        ({"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_CN.UTF-8"}, "zh-CN"),
        ({"LANG": "en_US.UTF-8", "LANGUAGE": "zh_CN:en"}, "zh-CN"),
        ({"LANG": "zh_CN.UTF-8", "LANGUAGE": "en"}, "en"),
        ({"LANG": "de_DE.UTF-8", "LANGUAGE": "fr"}, "en"),
        ({"LANG": "zh"}, "zh-CN"),
        ({"LANG": "zh_TW.UTF-8"}, "zh-CN"),
        ({"LANG": "zh_CN.UTF-8", "ROLLCALL_LANGUAGE": "en"}, "en"),
        ({"LC_ALL": "C", "ROLLCALL_LANGUAGE": "zh-CN"}, "zh-CN"),
        ({"LANG": "zh_CN.UTF-8", "ROLLCALL_LANGUAGE": "tlh"}, "en"),
    ],
)
def test_the_language_of_a_command(environ: dict[str, str], language: str) -> None:
    assert language_of_environment(environ) == language
