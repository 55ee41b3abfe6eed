// One reply: the request for it, and its message, which grows while it comes.
//
// Messages: {role: user|assistant|tool, content}; a tool's has callId and name;
// an assistant's may have reasoning, calls [{id, name, arguments}], finish
// (stop|length|tool_calls|stopped|failed), error {message, code, status} and
// figures {promptTokens, cachedTokens, tokens, firstToken, thought, tps}, in
// seconds from the request on.

export function newReply() {
  return {role: 'assistant', content: '', figures: {}};
}

// The body of a request for what follows `messages`.
export function chatRequest(messages, settings, model) {
  const {system, enable_thinking, ...sampling} = settings;
  const body = {
    model: model || undefined,
    messages: messages.filter(saysSomething).map(requestMessage),
    stream: true,
    stream_options: {include_usage: true},
    ...sampling,
  };
  if (system) body.messages.unshift({role: 'system', content: system});
  if (enable_thinking !== undefined) {
    body.chat_template_kwargs = {enable_thinking};
  }
  return body;
}

const saysSomething = ({role, content, calls}) =>
    role !== 'assistant' || content !== '' || calls?.length > 0;

function requestMessage({role, content, calls, callId}) {
  const message = {role, content};
  if (role === 'tool') message.tool_call_id = callId;
  if (calls?.length) {
    message.tool_calls = calls.map(({id, name, arguments: text}) => (
        {id, type: 'function', function: {name, arguments: text}}));
  }
  return message;
}

// The calls at the end of a conversation that have no result yet.
export function openCalls(messages) {
  const last = messages.findLastIndex(({role}) => role !== 'tool');
  const answered = new Set(messages.slice(last + 1).map((m) => m.callId));
  return (messages[last]?.calls ?? []).filter(({id}) => !answered.has(id));
}

// Adds a chunk of the stream to the reply. `seconds`: since the request.
export function addChunk(reply, chunk, seconds) {
  const {figures} = reply;
  if (chunk.usage) {
    figures.promptTokens = chunk.usage.prompt_tokens;
    figures.cachedTokens =
        chunk.usage.prompt_tokens_details?.cached_tokens ?? 0;
    figures.tokens = chunk.usage.completion_tokens;
  }
  const choice = chunk.choices?.[0];
  if (!choice) return;
  const {content, reasoning_content, reasoning, tool_calls} =
      choice.delta ?? {};
  const thought = reasoning_content ?? reasoning;
  if (content || thought || tool_calls) {
    figures.firstToken ??= seconds;
    figures.lastToken = seconds;
  }
  if (thought) {
    reply.reasoning = (reply.reasoning ?? '') + thought;
    figures.thought = seconds - figures.firstToken;
  }
  if (content) reply.content += content;
  for (const call of tool_calls ?? []) addCall(reply, call);
  if (choice.finish_reason) reply.finish = choice.finish_reason;
}

function addCall(reply, {index, id, function: called}) {
  reply.calls ??= [];
  const call = (reply.calls[index] ??= {id: '', name: '', arguments: ''});
  call.id += id ?? '';
  call.name += called?.name ?? '';
  call.arguments += called?.arguments ?? '';
}

// Called when the stream is over: tokens per second, of all but the first.
export function closeFigures(reply) {
  const {figures} = reply;
  const seconds = figures.lastToken - figures.firstToken;
  if (figures.tokens > 1 && seconds > 0) {
    figures.tps = (figures.tokens - 1) / seconds;
  }
  delete figures.lastToken;
}
