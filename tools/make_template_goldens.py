#!/usr/bin/env python3
"""Renders chat templates with transformers' own Jinja environment.

usage: make_template_goldens.py MODELS_DIR   (the folder of the GGUF files)
Writes tests/goldens/text/templates.json: a list of {name, template, context,
text} or, where the template fails, {name, template, context, error} with the
class of the fault. needs: transformers, jinja2, gguf
"""
import json
import os
import sys
from datetime import datetime
from unittest import mock

import jinja2
from gguf import GGUFReader
from transformers.utils import chat_template_utils

OUT = os.path.join(os.path.dirname(__file__), "..", "tests", "goldens", "text", "templates.json")
NOW = 1735787045  # 2025-01-02 03:04:05 UTC

# The table of case E-12, and more of its kinds.
EXPRESSIONS = [
    "{{ none is none }}|{{ x is defined }}|{{ 'abc'[:2] }}|{{ 'abc'[10:] }}",
    "{{ 5//2 }} {{ -5//2 }} {{ -5 % 3 }} {{ 2**3 }} {{ 7/2 }} {{ 4/2 }}",
    "{{ true }} {{ none }} {{ 1.0 }} {{ 1e20 }} {{ [1,'a',none,true] }} {{ {'a':'b'} }}",
    "{{ 'a' ~ 1 ~ none ~ true }}",
    "{{ undefinedvar }}|{{ m.foo }}",
    "{{ 'xxa'.lstrip('x') }}|{{ 'a,b'.split(',',1) }}|{{ '%s-%d' % ('a',3) }}",
    "{{ ['b','A']|sort }} {{ {'b':1,'a':2}|dictsort }} {{ {'b':1}|items|list }}",
    "{% for i in [1,2,3] %}{% if i==2 %}{% continue %}{% endif %}{{i}}{% endfor %}",
    "{% set ns=namespace(a=1) %}{% for i in [1,2] %}{% set ns.a=ns.a+i %}{% endfor %}{{ns.a}}",
    "  {%- if true %}\n  hi\n  {%- endif %}\n!",
    "{{ 'hello world'|title }} {{ 'hello World'|capitalize }} {{ [[1,'a']]|map(attribute=0)|list }}",
    # numbers
    "{{ 1e16 }} {{ 1e15 }} {{ 123456789.123 }} {{ 1e-5 }} {{ 0.0001 }} {{ -0.0 }} {{ 1/3 }} {{ 1.5e300 }}",
    "{{ [1e20, 1e-7, 2.50] }} {{ {'x': 1e16} }} {{ numbers }}",
    "{{ 10**20 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7.5 % 2 }} {{ 10 % 4 * 3 }} {{ 2 * 7 % 4 }} {{ 1 + 9 % 5 }}",
    "{{ 17 % 10 % 4 }} {{ (17 % 10) % (5 % 3) }} {{ -(7 % 4) }} {{ [7 % 4, 9 % 5] }} {{ {'k': 7 % 4} }}",
    "{{ n % 2 == 0 }} {{ (n + 1) % 2 == 0 and n % 3 != 1 }}",
    "{% if n % 2 %}odd{% else %}even{% endif %} {% set r = n % 4 %}{{ r }}",
    "{% for i in range(6) if i % 2 == 0 %}{{ i }}{% endfor %}",
    # strings and % formatting
    "{{ '%s' % 'a' }}{{ '%d%%' % 5 }}{{ '%5.2f|' % 1.005 }}{{ '%-4s|' % 'x' }}{{ '%04d' % 42 }}{{ '%x' % 255 }}",
    "{{ 'a%sb%s' % (1, none) ~ '!' }} {{ ('%s' % true)|upper }} {{ '%r' % 'q' }} {{ fmt % ('v', 2) }}",
    "{{ '%s %r' % (1e20, [1e16, 'x']) }} {{ '%(a)s' % {'a': 1} }} {{ '%5s|%-5s|%.2s' % ('a', 'b', 'cdef') }}",
    "{{ \"it's\" }} {{ [\"it's\", 'a\"b', 'a\\'b\"c', '\\n\\t', '\\\\', 'é', '\\u200b'] }}",
    "{{ (1,) }} {{ () }} {{ [(1, 'x'), []] }} {{ {} }} {{ {'a': {'b': [none, false]}} }}",
    "{{ 'abc'[::-1] }} {{ 'abcdef'[1:5:2] }} {{ [1,2,3][1:] }} {{ [1,2,3][-2:] }} {{ [1,2,3][:-1] }}",
    "{% for m in [1,2,3][::-1] %}{{m}}{% endfor %} {{ messages[1:]|length }} {{ messages[-1].role }}",
    "{{ 'a,b,c'.split(',') }} {{ ' x '.strip() }} {{ 'aXbX'.replace('X', '-') }} {{ 'abc'.startswith('ab') }}",
    "{{ 'abc'.endswith('bc') }} {{ 'a b'.upper() }} {{ 'x'.join(['1','2']) }} {{ 'hello'.find('l') }} {{ 'Ab'.lower() }}",
    "{{ 'a-b'.removeprefix('a-') }} {{ 'a-b'.removesuffix('-b') }} {{ 'a\nb'.splitlines() }} {{ 'ab'.capitalize() }}",
    "{{ 'ab' * 3 }} {{ 'a' in 'abc' }} {{ 'z' not in 'abc' }} {{ 'abc'|length }} {{ '  x '|trim }} {{ 'x'|upper }}",
    "{{ {'a':1}.get('a') }} {{ {'a':1}.get('z', 'd') }} {{ {'a':1}.keys()|list }} {{ {'a':1}.values()|list }}",
    "{% for k, v in {'a':1,'b':2}.items() %}{{ k }}={{ v }};{% endfor %}",
    "{{ true|string }} {{ none|string }} {{ 1.0|string }} {{ 1e20|string }} {{ '3'|int + 1 }} {{ '2.5'|float }}",
    "{{ [3,1,2]|sort }} {{ [3,1,2]|sort(reverse=true) }} {{ [1,2,2]|unique|list }} {{ [1,2]|sum }} {{ [1,5]|max }}",
    "{{ messages|map(attribute='role')|join(',') }} {{ messages|selectattr('role','equalto','user')|list|length }}",
    "{{ messages|rejectattr('role','equalto','user')|map(attribute='content')|first }}",
    "{{ u|default('d') }} {{ none|default('d') }} {{ none|default('d', true) }} {{ ''|default('d', true) }}",
    "{{ 1 if true else 2 }} {{ 1 if false }}| {{ 'y' if messages else 'n' }} {{ not true }} {{ 1 and 0 }} {{ 0 or 'x' }}",
    "{{ m is mapping }} {{ 'a' is string }} {{ [] is sequence }} {{ [] is iterable }} {{ 1 is number }} {{ true is boolean }}",
    "{{ none is none }} {{ x is not defined }} {{ 3 is odd }} {{ 'a' == 'a' }} {{ 1 == 1.0 }} {{ 2 is divisibleby 2 }}",
    "{% macro f(a, b=2) %}{{ a }}-{{ b }}{% endmacro %}{{ f(1) }} {{ f(1, b=none) }} {{ f('x')|upper }}",
    "{% set x %}abc{% endset %}{{ x }}{% set y, z = 1, 2 %}{{ y }}{{ z }}{% with w = 3 %}{{ w }}{% endwith %}",
    "{% for i in [1,2,3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}",
    "{% for i in [1,2,3] %}{{ loop.previtem }}>{{ loop.nextitem }} {% endfor %}{% for i in [] %}{% else %}none{% endfor %}",
    "{% for i in [1,2,3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "a{# comment {{ 1 % 0 }} #}b{% raw %}{{ 5 % 2 }}[1:2]{% endraw %}c",
    "  {% if true %}  \n  x  \n  {% endif %}  \ny\n\n",
    "{%- if true -%}  x  {%- endif -%}  y",
    "{% generation %}x{% endgeneration %}{%- generation -%} y {%- endgeneration %}",
    "{{ dict(a=1, b='c') }} {{ range(3)|list }} {{ range(1, 7, 3)|list }} {{ namespace(a=1).a }}",
    "{{ 'a\\nb'|indent(2) }}|{{ [1,2,3]|batch(2)|list }}",
    "{{ [1,2,3]|last }} {{ [[1,2],[3]]|map('length')|list }} {{ 'b,a'.split(',')|sort|join('+') }} {{ 3.567|round(1) }}",
    "{{ -3|abs }} {{ 7|string ~ 'x' }} {{ 'abc'|list }} {{ 'abc'|reverse }} {{ ['a','b']|join }} {{ 5 is even }}",
    "{{ messages[0]['content'] ~ messages[0].content }} {{ messages[0].get('name', 'no name') }}",
    # JSON
    "{{ t|tojson }}\n{{ t|tojson(indent=2) }}",
    "{{ t|tojson(ensure_ascii=False) }} {{ t|tojson(ensure_ascii=true) }}",
    "{{ t|tojson(sort_keys=true,separators=(',',':')) }} {{ t|tojson(indent=4, sort_keys=True) }}",
    "{{ [1.0, 1e20, 1e-7, none, true, 'a\\\"\\n/<>&', [], {}]|tojson }} {{ {1: 2, none: 3}|tojson }}",
    "{{ [[], {}, [1], {'a': [2]}]|tojson(indent=1) }} {{ (1, 2)|tojson }} {{ 'x'|tojson }}",
    "{{ strftime_now('%Y-%m-%d %H:%M:%S %d %b %Y %A %j') }}",
    # faults
    "{{ raise_exception('only user and assistant') }}",
    "{{ undefinedvar.foo }}",
    "{{ tool.function|tojson }}",
    "{{ messages[9].role }}",
    "{{ 'a' + 1 }}",
    "{{ '%s' % ('a', 'b') }}",
    "{{ '%s %s' % 'a' }}",
    "{{ '%d' % 'x' }}",
    "{{ 1 / 0 }}",
    "{% if %}",
    "{{ x|no_such_filter }}",
    "{% for %}{% endfor %}",
    "{{ undefinedvar() }}",
]

CONTEXT = {
    "m": {"content": "c"},
    "n": 7,
    "fmt": "%s=%02d",
    "numbers": [0.1, 100000000000000000.0, 3, -2.5],
    "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi, \u4f60\u597d"}],
    "t": {"name": "get_wx", "z": 1.0, "text": "caf\u00e9 \U0001f600 <b>", "list": [1, [2, {"k": None}]], "e": {}},
    "tool": {},
}

TOOLS = [{"type": "function", "function": {
    "name": "get_wx", "description": "The weather of a city, \u00e9t\u00e9 & hiver.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
CHATS = {
    "user": {"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": True},
    "system": {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": " a\n"},
                            {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}],
               "add_generation_prompt": True},
    "closed": {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
               "add_generation_prompt": False},
    "tools": {"messages": [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"type": "function", "id": "1", "function": {"name": "get_wx", "arguments": {"city": "Oslo"}}}]},
        {"role": "tool", "tool_call_id": "1", "content": "sunny"},
        {"role": "tool", "tool_call_id": "2", "content": "rain"}], "tools": TOOLS, "add_generation_prompt": True},
}


class Clock(datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.utcfromtimestamp(NOW)


def render(template, context):
    try:
        with mock.patch.object(chat_template_utils, "datetime", Clock):
            compiled = chat_template_utils._compile_jinja_template(template)
            return {"text": compiled.render(**context)}
    except (jinja2.exceptions.TemplateError, TypeError, ValueError, ZeroDivisionError) as fault:
        return {"error": type(fault).__name__}


def main():
    cases = []
    for i, template in enumerate(EXPRESSIONS):
        cases.append({"name": f"expression {i}", "template": template, "context": CONTEXT})
    for file in sorted(f for f in os.listdir(sys.argv[1]) if f.endswith(".gguf")):
        field = GGUFReader(os.path.join(sys.argv[1], file)).get_field("tokenizer.chat_template")
        for name, chat in CHATS.items() if field else ():
            cases.append({"name": f"{file} {name}", "template": field.contents(),
                          "context": {"tools": None, **chat}})
    for case in cases:
        case.update(render(case["template"], case["context"]))
    with open(OUT, "w", encoding="utf-8") as out:
        json.dump({"now": NOW, "cases": cases}, out, ensure_ascii=False, indent=1)
        out.write("\n")
    print(len(cases), "cases,", sum("error" in c for c in cases), "of them faults")


if __name__ == "__main__":
    main()
