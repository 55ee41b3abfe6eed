"""What the scripted model says to the page. A chunk may occur once in all
scripts."""

MARKDOWN = """\
# The mill

A **quern** is a *hand mill*, see [its page](https://quern.example/a?b=c).

1. Saddle quern
   - slow
   - simple
2. Rotary quern

| kind | kg |
| :--- | ---: |
| saddle | 0.4 |

> In pledge.

```python
def grind(sacks):
    return "a line that is a good deal wider than the screen of a telephone is"
```

Averylongwordthatdoesnotfitonthescreenofatelephoneandhastobebrokensomewhere.
"""

HOSTILE = """\
<script>window.evil = 1</script>
<img src=x onerror="window.evil = 2">
[one](javascript:window.evil=3) [two](data:text/html,evil)
![three](https://elsewhere.example/track.png)
[four](https://safe.example/) [five](/stats)
```<b>js
</code></pre><script>window.evil = 4</script>
"""


def by_line(text):
    return [line + "\n" for line in text.split("\n")]


def by_paragraph(text):
    return [part + "\n\n" for part in text.split("\n\n")]


SCRIPTS = {
    "@hello": ["Good", " morning", ", miller."],
    "@again": ["Not", " now."],
    "@again#1": ["Once", " more."],
    "@markdown": by_paragraph(MARKDOWN),
    "@hostile": by_line(HOSTILE),
    "@think": ["<think>", "Let me ", "**consider**.", "</think>", "It is",
               " four."],
    "@tool": ["I look. ", "<tool_call>", "\n{\"name\": \"get_wx\", \"argu",
              "ments\": {\"city\": \"Oslo\"}}\n", "</tool_call>"],
    "@tool#1": ["Rain", " in Oslo."],
    "@long": [f"w{i} " for i in range(1500)],
}

TOOLS = [{"type": "function", "function": {
    "name": "get_wx", "description": "The weather of a city.",
    "parameters": {"type": "object",
                   "properties": {"city": {"type": "string"}},
                   "required": ["city"]}}}]
