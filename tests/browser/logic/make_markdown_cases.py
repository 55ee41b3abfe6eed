#!/usr/bin/env python3
"""Writes markdown_cases.json: Markdown and its HTML by markdown-it-py.

usage: make_markdown_cases.py > markdown_cases.json

The HTML has no white space between blocks. A newline is a break, as on the
page. needs: markdown-it-py
"""

import json
import re

from markdown_it import MarkdownIt

TEXTS = [
    # Emphasis.
    "plain *em* and **strong** and ***both***",
    "**strong with *em* inside**", "*em with **strong** inside*",
    "_em_ __strong__ snake_case_name and __init__.py",
    "a * b * c", "2*3*4", "**not closed", "*a **b*", "**a *b**",
    "***a** b*", "***a* b**", "****a****", "*(*a*)*", "**\"q\"**, said",
    "~~gone~~ and ~5 and ~~open", "*~~a~~*", "foo*bar*baz", "foo_bar_baz",
    "*a_b*_", "a**b**c", "** no **", "\\*literal\\* \\[x\\]",
    "**1.** *x*: y", "*foo**bar*", "***", "*a\nb*",
    # Code.
    "`code` and ``a ` b`` and ` `` `", "`open and `` done",
    "`a *b* [c](http://d)` *e*", "`a\nb`", "\\`no code\\`", "`` ` ``",
    # Links.
    "[text](https://a.b/c)", "[t](<https://a.b/c d>)",
    "[t](https://a.b/c_(d)) x",
    "[*em* `code`](https://a.b)", "*[a](http://b)*", "[a [b] c](http://d)",
    "[no](", "[no] (x)", "<https://a.b/c?d=e&f>", "<mailto:a@b.c>",
    "[a](http://b)[c](http://d)", "[a\nb](http://c)", "[m](mailto:a@b.c)",
    "[[a](http://b)](mailto:c@d)",
    # Breaks and paragraphs.
    "a\nb", "a  \nb", "a\\\nb", "one\n\ntwo\n\n\nthree", "  indented\n text",
    "<b>html</b> &lt; <script>alert(1)</script>",
    # Headings and rules.
    "# One\n## Two ##\n### Three #\n#### Four\n##### Five\n###### Six",
    "#hash\n\n####### seven", "#\n\n## ", "a\n\n---\n\nb\n***\nc",
    "- - -\n\n* * *\n\n_____", "# *em* `c`\ntext",
    # Fences.
    "```python\nx = 1\n\n  y\n```", "```\nopen\n\nto the end", "~~~\n```\n~~~",
    "````\n```\n````", "text\n```js\ncode\n```\ntext", "```\n```",
    "``` a`b\n", "  ```\n  indented\n    more\n  ```", "```c++ title\nx\n```",
    # Quotes.
    "> a\n> b\n\n> c", "> a\nlazy\n\nout", "> # h\n>\n> - x\n> - y",
    "> > nested\n> back", ">no space", "> ```\n> code\n> ```\nout",
    # Lists.
    "- a\n- b\n- c", "* a\n\n* b", "1. a\n2. b", "3) a\n4) b", "- a\n+ b",
    "- a\n  - b\n    - c\n- d", "1. a\n   - b\n   - c\n2. d",
    "- a\n\n  b\n- c", "- a\nlazy\n- b", "- ```\n  code\n  ```\n- b",
    "1. a\n\n   ```py\n   x\n   ```\n\n2. b", "-\n- a", "- a\n\n\n- b\n\ntext",
    "text\n- a\n- b", "text\n2. not a list", "text\n1. list", "- # h\n- > q",
    "- a\n  > q\n- b", "- a\n---\nb", "* a *b*\n* [c](http://d)",
    "- a\n   - b\n", "1. a\n\n2. b\n3. c", "- a\n\n  - b\n\n  - c\n- d",
    # Tables.
    "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |",
    "a | b\n:-- | --:\n*x* | `y`\n\nafter",
    "|a|b|c|\n|:-:|-|-:|\n|1|2|3|", "| a |\n| --- |\n| x \\| y |",
    "|a|b|\n|-|\n|c|", "text\n\n| a | b |\n|---|---|\n| 1 | 2 |\n> q",
]

TAGS = r"</?(?:p|h\d|ul|ol|li|pre|blockquote|table|thead|tbody|tr|th|td|hr)"
BETWEEN = re.compile(rf"\s*({TAGS}\b[^>]*>)\s*")


def compact(html):
    """Without white space around block tags, but for that in code."""
    parts = re.split(r"(<pre>.*?</pre>)", html, flags=re.DOTALL)
    parts[::2] = [BETWEEN.sub(r"\1", part) for part in parts[::2]]
    html = "".join(parts).replace("<br />\n", "<br>").replace("<hr />", "<hr>")
    html = re.sub(r"\s*(<pre>)", r"\1", html)
    html = re.sub(r"(</pre>)\s*", r"\1", html)
    return html.replace("\n</code></pre>", "</code></pre>")


def main():
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True})
    parser.enable(["table", "strikethrough"]).disable(["entity", "lheading"])
    cases = [{"text": t, "html": compact(parser.render(t))} for t in TEXTS]
    print(json.dumps(cases, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
