"""Templates whose texts are translated while they are compiled."""

from gettext import NullTranslations

import pytest
from jinja2 import DictLoader, Environment, StrictUndefined

from app.languages.catalogues import ENGLISH_TEXTS, Texts
from app.languages.template_texts import with_texts


class Louder(NullTranslations):
    """Translates each text to itself with marks around, so that a test sees what was asked for."""

    def gettext(self, message: str) -> str:
        return f"«{message}»"

    def ngettext(self, msgid1: str, msgid2: str, n: int) -> str:
        return f"«{msgid1 if n == 1 else msgid2}»"


LOUD = Texts("zh-CN", Louder())


def rendered(template: str, texts: Texts = LOUD, **values: object) -> str:
    loader = DictLoader({"page": template})
    environment = with_texts(Environment(loader=loader, autoescape=True, undefined=StrictUndefined), texts)
    return environment.get_template("page").render(values)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ('{{ _("a & b") }}', "«a &amp; b»"),
        ('{{ "x" if no else _("y") }}', "«y»"),
        ("{% trans %}one <b>two</b>{% endtrans %}", "«one <b>two</b>»"),
        ("{% trans %}100 %{% endtrans %}", "«100 %»"),
        ("{% trans %}{{ name }}: 100 %{% endtrans %}", "«&lt;i&gt;: 100 %»"),
        ("{% trans a=name, b=name|upper %}{{ b }} {{ a }} {{ b }}{% endtrans %}", "«&lt;I&gt; &lt;i&gt; &lt;I&gt;»"),
        ("{% trans a=call(1) %}{{ a }}, {{ a }}{% endtrans %}", "«1!, 1!»"),
        ("{% trans %} many\n  lines {% endtrans %}", "«many lines»"),
        ("{% trans count=1 %}{{ count }} day{% pluralize %}{{ count }} days{% endtrans %}", "«1 day»"),
        ("{% trans count=2 %}{{ count }} day{% pluralize %}{{ count }} days{% endtrans %}", "«2 days»"),
        ("{% trans n=call(2) %}{{ n }} day{% pluralize %}{{ n }} days{% endtrans %}", "«2! days»"),
        ("{{ name|text }}", "«&lt;i&gt;»"),
        ("{% macro m(a) %}{% trans %}in {{ a }}{% endtrans %}{% endmacro %}{{ m(name) }}", "«in &lt;i&gt;»"),
    ],
)
def test_a_text_is_translated_and_its_values_are_escaped(template: str, text: str) -> None:
    assert rendered(template, name="<i>", no=False, call=lambda number: f"{number}!") == text


def test_a_page_calls_nothing_for_its_texts() -> None:
    """They are literals of the compiled template."""
    environment = with_texts(Environment(autoescape=True), LOUD)
    source = str(environment.compile('{{ _("a") }}{% trans %}b {{ c }}{% endtrans %}', raw=True))
    assert "gettext" not in source
    assert "«a»" in source


def test_in_english_a_text_is_itself() -> None:
    assert rendered('{{ _("a") }} {% trans %}b {{ c }}{% endtrans %}', ENGLISH_TEXTS, c="<") == "a b &lt;"
