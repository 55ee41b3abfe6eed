// Calls of tools as the stream helper accumulates them.
const assert = require("node:assert/strict");
const OpenAI = require("openai");

const client = new OpenAI({
  baseURL: process.argv[2],
  apiKey: "none",
  maxRetries: 0,
});
const tool = (name, properties) => ({
  type: "function",
  function: { name, parameters: { type: "object", properties } },
});

async function main() {
  const stream = client.chat.completions.stream({
    model: "any",
    messages: [{ role: "user", content: "@two" }],
    tools: [tool("get_wx", { city: { type: "string" } }), tool("get_time", {})],
  });
  const message = await stream.finalMessage();
  assert.deepEqual(
    message.tool_calls.map((call) => [
      call.function.name,
      JSON.parse(call.function.arguments),
    ]),
    [
      ["get_wx", { city: "Oslo" }],
      ["get_time", {}],
    ],
  );
  const completion = await stream.finalChatCompletion();
  assert.equal(completion.choices[0].finish_reason, "tool_calls");
}

main();
