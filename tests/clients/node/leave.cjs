// Leaves the loop over a stream: the client closes the connection.
const OpenAI = require("openai");

const client = new OpenAI({
  baseURL: process.argv[2],
  apiKey: "none",
  maxRetries: 0,
});

async function main() {
  const stream = await client.completions.create({
    model: "any",
    prompt: "go",
    max_tokens: 60000,
    logit_bias: { [process.argv[3]]: -100 },
    stream: true,
  });
  let count = 0;
  for await (const _ of stream) {
    if (++count === 3) break;
  }
}

main();
