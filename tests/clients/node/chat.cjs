// Chat and completions, whole and streamed; errors.
const assert = require("node:assert/strict");
const OpenAI = require("openai");

const client = new OpenAI({
  baseURL: process.argv[2],
  apiKey: "none",
  maxRetries: 0,
});
const ask = (text) => ({
  model: "any",
  messages: [{ role: "user", content: text }],
});

async function main() {
  const whole = await client.chat.completions.create(ask("@plain"));
  assert.equal(whole.choices[0].message.content, "Good morning.");
  assert.equal(whole.choices[0].finish_reason, "stop");
  assert.equal(whole.usage.completion_tokens, 3);

  const stream = await client.chat.completions.create({
    ...ask("@emoji"),
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = "";
  let usage = null;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, "hi \u{1F642} bye");
  assert.equal(usage.completion_tokens, 6);

  const helper = client.chat.completions.stream(ask("@think"));
  assert.equal(await helper.finalContent(), "answer");

  const completion = await client.completions.create({
    model: "any",
    prompt: "@plain",
    logprobs: 1,
  });
  assert.equal(completion.choices[0].text, "Good morning.");
  assert.equal(completion.choices[0].logprobs.tokens.length, 3);

  const models = await client.models.list();
  assert.equal(models.data.length, 1);

  await assert.rejects(
    client.chat.completions.create({ ...ask("@plain"), top_p: 7 }),
    (error) =>
      error instanceof OpenAI.BadRequestError && error.param === "top_p",
  );
}

main();
