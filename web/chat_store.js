// Chats in the browser's storage, one entry a chat: {id, title, updated,
// messages}. Bounded: the oldest make room. What cannot be saved lives as long
// as the page.

const prefix = 'quern.chat.';
const maxChats = 50;
const maxChars = 4 << 20;  // of all chats; browsers give about five million

export class ChatStore {
  #storage;
  #chats = new Map();  // id -> chat

  constructor(storage) {
    this.#storage = storage;
    for (let i = 0; i < storage.length; ++i) this.reload(storage.key(i));
  }

  // Newest first.
  list() {
    return [...this.#chats.values()].sort((a, b) => b.updated - a.updated);
  }

  get(id) {
    return this.#chats.get(id);
  }

  create() {
    const id = Date.now().toString(36) +
        Math.random().toString(36).slice(2, 8);
    return {id, title: '', updated: Date.now(), messages: []};
  }

  // Whether it is saved.
  save(chat) {
    this.#chats.set(chat.id, chat);
    const text = JSON.stringify(chat);
    this.#makeRoom(chat.id, text.length);
    for (;;) {
      try {
        this.#storage.setItem(prefix + chat.id, text);
        return true;
      } catch {
        if (!this.#dropOldest(chat.id)) return false;
      }
    }
  }

  remove(id) {
    this.#chats.delete(id);
    this.#storage.removeItem(prefix + id);
  }

  // Takes over what another tab wrote under a key of the storage.
  reload(key) {
    if (!key?.startsWith(prefix)) return;
    const id = key.slice(prefix.length);
    const chat = parseChat(this.#storage.getItem(key));
    if (chat?.id === id) {
      this.#chats.set(id, chat);
    } else {
      this.#chats.delete(id);
    }
  }

  #makeRoom(id, chars) {
    const others = this.list().filter((chat) => chat.id !== id);
    let total = chars;
    for (const chat of others) {
      total += this.#storage.getItem(prefix + chat.id)?.length ?? 0;
    }
    for (let count = others.length + 1;
         count > maxChats || (total > maxChars && count > 1); --count) {
      const oldest = others.pop();
      total -= this.#storage.getItem(prefix + oldest.id)?.length ?? 0;
      this.remove(oldest.id);
    }
  }

  #dropOldest(id) {
    const oldest = this.list().findLast((chat) => chat.id !== id);
    if (oldest) this.remove(oldest.id);
    return oldest !== undefined;
  }
}

// Null if it is none, whoever wrote it.
function parseChat(text) {
  let chat;
  try {
    chat = JSON.parse(text);
  } catch {
    return null;
  }
  const valid = typeof chat?.title === 'string' &&
      Number.isFinite(chat.updated) && Array.isArray(chat.messages) &&
      chat.messages.every(isMessage);
  return valid ? chat : null;
}

function isMessage(message) {
  return ['user', 'assistant', 'tool'].includes(message?.role) &&
      typeof message.content === 'string' &&
      (message.role !== 'assistant' || message.figures instanceof Object);
}
