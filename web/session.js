// The chats and what is done to them; no element of the page is known here.
// Tells by events: `chats` (the list), `messages` (those of the shown chat),
// `reply` (detail: one that grows or has ended) and `unsaved`.

import {ApiError, streamChat} from './api.js';
import {addChunk, chatRequest, closeFigures, newReply, openCalls}
    from './reply.js';

const saveInterval = 2000;  // milliseconds between saves of a growing reply
const titleLength = 60;

export class Session extends EventTarget {
  model = '';
  settings = {};
  #store;
  #chat;
  #runs = new Map();  // chat id -> {stop, reply, progress}

  constructor(store) {
    super();
    this.#store = store;
    this.#chat = store.list()[0] ?? store.create();
  }

  get chat() {
    return this.#chat;
  }

  // {reply, progress: {fed, total} or undefined} under way in the shown chat.
  get run() {
    return this.#runs.get(this.#chat.id);
  }

  chats() {
    return this.#store.list();
  }

  show(id) {
    const chat = this.#store.get(id);
    if (chat) this.#show(chat);
  }

  newChat() {
    this.#show(this.#store.create());
  }

  // Returns what brings it back.
  removeChat(id) {
    const chat = this.#store.get(id);
    this.#runs.get(id)?.stop.abort();
    this.#runs.delete(id);
    this.#store.remove(id);
    if (this.#chat.id === id) this.#show(this.#store.create());
    this.#tell('chats');
    return () => {
      this.#store.save(chat);
      this.#show(chat);
    };
  }

  // Another tab wrote to the storage.
  reload(key) {
    if (this.#runs.size > 0) return;
    this.#store.reload(key);
    const chat = this.#store.get(this.#chat.id);
    if (chat && chat !== this.#chat) this.#show(chat);
    this.#tell('chats');
  }

  // The text is the result of the first open call, if there is one.
  send(text) {
    const chat = this.#chat;
    const [call, ...others] = openCalls(chat.messages);
    if (call) {
      chat.messages.push({
        role: 'tool', content: text, callId: call.id, name: call.name,
      });
    } else {
      chat.messages.push({role: 'user', content: text});
      chat.title ||= text.trim().split('\n', 1)[0].slice(0, titleLength);
    }
    if (others.length > 0) {
      this.#changed(chat);
    } else {
      this.#answer(chat);
    }
  }

  // Answers anew from the message at `index` on, with another text if it is the
  // user's.
  rewrite(index, text) {
    const chat = this.#chat;
    this.stop();
    if (text === undefined) {
      chat.messages.length = index;
    } else {
      chat.messages.length = index + 1;
      chat.messages[index] = {role: 'user', content: text};
    }
    this.#answer(chat);
  }

  // Removes the user's message at `index` and what answers it. Returns what
  // brings them back.
  removeTurn(index) {
    const chat = this.#chat;
    this.stop();
    const before = [...chat.messages];
    let end = index + 1;
    while (end < before.length && before[end].role !== 'user') ++end;
    chat.messages.splice(index, end - index);
    this.#changed(chat);
    return () => {
      chat.messages = before;
      this.#changed(chat);
    };
  }

  stop() {
    this.run?.stop.abort();
  }

  // Saves what runs: the page goes.
  flush() {
    for (const {chat} of this.#runs.values()) this.#store.save(chat);
  }

  async #answer(chat) {
    const body = chatRequest(chat.messages, this.settings, this.model);
    const reply = newReply();
    const run = {chat, reply, stop: new AbortController()};
    this.#runs.get(chat.id)?.stop.abort();
    this.#runs.set(chat.id, run);
    chat.messages.push(reply);
    this.#changed(chat);
    try {
      await this.#follow(run, body);
      reply.finish ??= 'stop';
    } catch (e) {
      if (!run.stop.signal.aborted && !(e instanceof ApiError)) throw e;
      reply.finish = run.stop.signal.aborted ? 'stopped' : 'failed';
      if (reply.finish === 'failed') {
        const {message, status, code, retryAfter} = e;
        reply.error = {message, status, code, retryAfter};
      }
    } finally {
      closeFigures(reply);
      if (this.#runs.get(chat.id) === run) {
        this.#runs.delete(chat.id);
        this.#save(chat);
      }
      this.#tell('reply', reply);
    }
  }

  async #follow(run, body) {
    const start = performance.now();
    let saved = start;
    for await (const chunk of streamChat(body, run.stop.signal)) {
      run.stop.signal.throwIfAborted();
      const now = performance.now();
      if (chunk.progress) {
        run.progress = chunk.progress;
      } else {
        addChunk(run.reply, chunk, (now - start) / 1000);
      }
      if (now - saved > saveInterval) {
        saved = now;
        this.#save(run.chat);
      }
      this.#tell('reply', run.reply);
    }
  }

  #show(chat) {
    this.#chat = chat;
    this.#tell('chats');
    this.#tell('messages');
  }

  #changed(chat) {
    chat.updated = Date.now();
    this.#save(chat);
    this.#tell('chats');
    if (chat === this.#chat) this.#tell('messages');
  }

  #save(chat) {
    if (!this.#store.save(chat)) this.#tell('unsaved');
  }

  #tell(type, detail = null) {
    this.dispatchEvent(new CustomEvent(type, {detail}));
  }
}
