"""Formulas as MathML, which browsers draw by themselves: no script, no font, no network."""

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.errors import SphinxError
from sphinx.util.nodes import get_node_line


def drawn(node: nodes.Element, as_block: bool) -> str:
    """The formula, with the two bars of a norm as high as each other."""
    try:
        formula = str(tex2mathml(node.astext(), as_block=as_block))
        formula = formula.replace('<mo class="mathopen">‖', '<mo stretchy="false" form="prefix">‖')
        return re.sub("<mo[^>=]*>‖", '<mo stretchy="false" form="postfix">‖', formula)
    except MathError as problem:
        raise SphinxError(f"{node.source}:{get_node_line(node)}: {problem}") from problem


def visit_inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(drawn(node, False))
    raise nodes.SkipNode


def visit_block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="formula">{drawn(node, True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
