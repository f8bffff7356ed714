"""Templates in one language: their texts are translated when a template is compiled, so that a page pays nothing."""

import re
from collections.abc import Iterator

from jinja2 import nodes
from jinja2.environment import Environment
from jinja2.ext import InternationalizationExtension
from jinja2.lexer import Token, TokenStream
from jinja2.parser import Parser

from app.languages.catalogues import Texts

_STORED = "_trans"
"""The name under which Jinja stores the first variable of a block, if it is a call."""
_PLACEHOLDER = re.compile(r"%\((\w+)\)s|%%")


class TemplateTexts(InternationalizationExtension):
    """Replace ``_("text")`` and ``{% trans %}`` by the text in the language of ``environment.texts``.

    A text of a block is HTML, with its variables escaped as all output is.
    """

    @property
    def texts(self) -> Texts:
        """The texts of the environment."""
        found: Texts = self.environment.texts  # type: ignore[attr-defined]  # set by with_texts
        return found

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        """Replace each call ``_("text")`` by a literal."""
        for token in stream:
            if token.type == "name" and token.value == "_" and stream.current.type == "lparen":
                next(stream)
                text = stream.expect("string")
                stream.expect("rparen")
                yield Token(text.lineno, "string", self.texts.gettext(text.value))
            else:
                yield token

    def parse(self, parser: Parser) -> nodes.Node | list[nodes.Node]:
        """Return the nodes of a block; its first variable is only stored beforehand if a plural needs it, too."""
        made = super().parse(parser)
        if not isinstance(made, list) or not isinstance(output := made[1], nodes.Output):
            return made
        stored = made[0]
        assert isinstance(stored, nodes.Assign)
        value = stored.node
        assert isinstance(value, nodes.Expr)
        is_stored = [isinstance(one, nodes.Name) and one.name == _STORED for one in output.nodes]
        output.nodes = [value if is_it else one for is_it, one in zip(is_stored, output.nodes, strict=True)]
        return output

    def _make_node(  # type: ignore[override]  # a statement stands for the output
        self,
        singular: str,
        plural: str | None,
        context: str | None,
        variables: dict[str, nodes.Expr],
        plural_expr: nodes.Expr | None,
        vars_referenced: bool,
        num_called_num: bool,
    ) -> nodes.Stmt:
        """Return the output of a block: pieces of its translation, with the variables between them."""
        if not vars_referenced:
            singular = singular.replace("%%", "%")
        if plural is None or plural_expr is None:
            text = self.texts.gettext(singular)
            return _output(text, variables) if vars_referenced else nodes.Output([nodes.TemplateData(text)])
        find = self.texts.catalogue.ngettext
        is_one = nodes.Compare(plural_expr, [nodes.Operand("eq", nodes.Const(1))])
        one, more = (_output(find(singular, plural, number), variables) for number in (1, 2))
        return nodes.If(is_one, [one], [], [more])


def _output(text: str, variables: dict[str, nodes.Expr]) -> nodes.Output:
    pieces: list[nodes.Expr] = []
    end = 0
    for found in _PLACEHOLDER.finditer(text):
        pieces.append(nodes.TemplateData(text[end : found.start()]))
        pieces.append(variables[found[1]] if found[1] else nodes.TemplateData("%"))
        end = found.end()
    return nodes.Output([*pieces, nodes.TemplateData(text[end:])])


def with_texts(environment: Environment, texts: Texts) -> Environment:
    """Return the environment, whose templates have the texts of one language.

    The filter ``text`` translates values that the code marks with ``N_``.
    """
    environment.extend(texts=texts)
    environment.filters["text"] = texts.gettext
    environment.add_extension(TemplateTexts)
    environment.policies["ext.i18n.trimmed"] = True
    return environment
