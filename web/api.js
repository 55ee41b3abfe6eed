// The server's endpoints. Addresses are relative: the page may be served from a
// folder of another server.

import {EventReader} from './sse.js';

const keyName = 'quern.key';  // of the API key, kept as long as the tab

// What the server refused, or why it could not be asked (status 0).
export class ApiError extends Error {
  constructor(message, {status = 0, code = null, retryAfter = null} = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

export function getKey() {
  return sessionStorage.getItem(keyName);
}

export function setKey(key) {
  sessionStorage.setItem(keyName, key);
}

// Model ids.
export async function listModels() {
  const {data} = await (await request('v1/models')).json();
  return data.map(({id}) => id);
}

export async function fetchStats() {
  return await (await request('stats')).json();
}

// The stream's chunks, and {progress: {fed, total}} while the prompt is read.
// Throws ApiError, also for a stream that breaks off.
export async function* streamChat(body, signal) {
  const reply = await request('v1/chat/completions', {
    method: 'POST',
    headers: {'Content-Type': 'application/json'},
    body: JSON.stringify(body),
    signal,
  });
  const reader = new EventReader();
  const bytes = reply.body.getReader();
  const decoder = new TextDecoder();
  for (;;) {
    const {value, done} = await answered(bytes.read(), signal);
    if (done) break;
    for (const event of reader.push(decoder.decode(value, {stream: true}))) {
      if (event.data === '[DONE]') return;
      yield event.data === undefined ? progressOf(event.comment) :
                                       chunkOf(event.data);
    }
  }
  throw new ApiError('The connection closed before the reply ended.');
}

function progressOf(comment) {
  const match = /(\d+)\/(\d+)/.exec(comment);
  return match ? {progress: {fed: Number(match[1]), total: Number(match[2])}} :
                 {};
}

function chunkOf(data) {
  let chunk;
  try {
    chunk = JSON.parse(data);
  } catch {
    throw new ApiError('The server sent a chunk that is not JSON.');
  }
  if (chunk.error) throw errorOf(chunk.error.message, 200, chunk.error);
  return chunk;
}

function errorOf(message, status, error, headers) {
  return new ApiError(message ?? `The server answered with HTTP ${status}.`, {
    status,
    code: error?.code ?? error?.type ?? null,
    retryAfter: Number(headers?.get('retry-after')) || null,
  });
}

async function request(path, options = {}) {
  const headers = new Headers(options.headers);
  const key = getKey();
  if (key) headers.set('Authorization', `Bearer ${key}`);
  const reply = await answered(fetch(path, {...options, headers}),
                               options.signal);
  if (reply.ok) return reply;
  let error = null;
  try {
    ({error} = await reply.json());
  } catch {
    // Not the server's own words, perhaps a proxy's: the status must do.
  }
  throw errorOf(error?.message, reply.status, error, reply.headers);
}

// Waits for the network. An abort passes as it is.
async function answered(promise, signal) {
  try {
    return await promise;
  } catch (e) {
    if (signal?.aborted) throw e;
    throw new ApiError('The server does not answer. Is it still running?');
  }
}
