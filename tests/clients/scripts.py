"""What the scripted model of these tests says, and the tool that it calls."""

SCRIPTS = {
    "@plain": ["Good", " morning", "."],
    "@plain#1": ["Still", " here", "?"],
    "@think": ["<think>", "reason", "ing", "</think>", "answer"],
    "@tool": ["ok ", "<tool_call>", "\n{\"name\": \"get_wx\", \"arg",
              "uments\": {\"city\": \"Par", "is\"}}\n", "</tool_call>"],
    "@two": ["<tool_call>\n{\"name\": \"get_wx\", ",
             "\"arguments\": {\"city\": \"Oslo\"}}", "\n</tool_call>",
             "<tool_call>\n{\"name\": \"get_time\", ", "\"arguments\": {}}",
             "\n</tool_call>\n"],
    "@emoji": ["hi ", 0xF0, 0x9F, 0x99, 0x82, " bye"],
}
TOOLS = [
    {"type": "function", "function": {
        "name": "get_wx", "description": "The weather of a city.",
        "parameters": {"type": "object",
                       "properties": {"city": {"type": "string"}},
                       "required": ["city"]}}},
    {"type": "function", "function": {
        "name": "get_time", "description": "The time.",
        "parameters": {"type": "object", "properties": {}}}},
]
