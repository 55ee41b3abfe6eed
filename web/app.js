// Puts the page together.

import {ApiError, getKey, listModels, setKey} from './api.js';
import {ChatStore} from './chat_store.js';
import {Conversation} from './conversation.js';
import {el, iconButton, toast} from './dom.js';
import {Drawer} from './drawer.js';
import {Panel} from './panel.js';
import {openCalls} from './reply.js';
import {Session} from './session.js';
import {loadSettings, saveSettings} from './settings.js';
import {openSettings} from './settings_dialog.js';

const byId = (id) => document.getElementById(id);
const retryInterval = 3000;  // milliseconds, for the list of models

const session = new Session(new ChatStore(localStorage));
session.settings = loadSettings(localStorage);

const input = byId('input');
const conversation = new Conversation(
    session,
    {scroller: byId('scroller'), log: byId('log'), toEnd: byId('to-end')},
    askKey);
conversation.onRemove = (undo) =>
    toast('Deleted.', {label: 'Undo', run: undo});

const main = document.querySelector('main');
const chatsDrawer =
    new Drawer(byId('chats'), byId('show-chats'), '(min-width: 760px)', [main]);
new Drawer(byId('panel'), byId('show-panel'), '(min-width: 1120px)', [main]);
const panel = new Panel(byId('panel'));
byId('show-panel').addEventListener('click', () => panel.wake());

byId('new-chat').onclick = () => {
  session.newChat();
  chatsDrawer.closeAbove();
  input.focus();
};
byId('show-settings').onclick = () =>
    openSettings(byId('settings'), session.settings, (settings) => {
      session.settings = settings;
      if (!saveSettings(localStorage, settings)) tellUnsaved();
    });

// The composer.

byId('composer').onsubmit = (event) => {
  event.preventDefault();
  if (session.run) {
    session.stop();
  } else if (input.value.trim() !== '') {
    const text = input.value;
    input.value = '';
    fitInput();
    session.send(text);
  }
};
input.oninput = fitInput;
input.onkeydown = (event) => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!session.run) byId('composer').requestSubmit();
};
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && !document.querySelector('dialog[open]')) {
    session.stop();
  }
});

function fitInput() {
  input.style.height = 'auto';
  input.style.height = `${input.scrollHeight}px`;
}

function updateComposer() {
  const {chat, run} = session;
  const [call] = openCalls(chat.messages);
  const label = call && !run ? `Result of ${call.name}` : 'Message';
  input.placeholder = label;
  input.ariaLabel = label;
  const send = byId('send');
  send.classList.toggle('running', run !== undefined);
  send.ariaLabel = send.title = run ? 'Stop (Esc)' : 'Send (Enter)';
  byId('empty').hidden = chat.messages.length > 0;
  document.title = chat.title ? `${chat.title} – quern` : 'quern';
}

// When the focused button went with its message. Not by touch, where it would
// bring up a keyboard.
function keepFocus() {
  const lost = document.activeElement === document.body;
  if (lost && matchMedia('(hover: hover)').matches) input.focus();
}

// The list of chats.

function updateChats() {
  byId('chat-list').replaceChildren(...session.chats().map((chat) => {
    const shown = chat.id === session.chat.id;
    const open = el('button', {
      type: 'button', class: 'chat', textContent: chat.title || 'Untitled',
      onclick: () => {
        chatsDrawer.closeAbove();
        session.show(chat.id);
        byId('chat-list').querySelector('[aria-current]').focus();
      },
    });
    if (shown) open.ariaCurrent = 'true';
    const remove = iconButton('trash', `Delete chat: ${chat.title}`, () => {
      const undo = session.removeChat(chat.id);
      byId('new-chat').focus();
      toast('Chat deleted.', {label: 'Undo', run: undo});
    });
    return el('li', {}, open, remove);
  }));
}

// The model and the key.

let models = 0;  // timer of the next try

async function updateModels() {
  clearTimeout(models);
  try {
    const ids = await listModels();
    session.model = ids.includes(session.model) ? session.model : ids[0];
    byId('model').replaceChildren(...ids.map(
        (id) => el('option', {value: id, selected: id === session.model}, id)));
    byId('model').disabled = ids.length < 2;
  } catch (e) {
    if (!(e instanceof ApiError)) throw e;
    if (e.status === 401) return askKey();
    models = setTimeout(updateModels, retryInterval);
  }
}
byId('model').onchange = () => session.model = byId('model').value;

function askKey() {
  byId('key-wrong').hidden = getKey() === null;
  if (!byId('key').open) byId('key').showModal();
}
byId('key').querySelector('form').onsubmit = () => {
  setKey(byId('key-input').value.trim());
  updateModels();
  panel.wake();
};
byId('key').querySelector('.cancel').onclick = () => byId('key').close();

// What the session tells.

let toldUnsaved = false;

function tellUnsaved() {
  if (toldUnsaved) return;
  toldUnsaved = true;
  toast('The browser has no room: this is kept until the page is closed.');
}
session.addEventListener('messages', () => {
  updateComposer();
  keepFocus();
});
session.addEventListener('reply', ({detail}) => {
  if (detail.finish) updateComposer();
});
session.addEventListener('chats', updateChats);
session.addEventListener('unsaved', tellUnsaved);
addEventListener('storage', ({key}) => session.reload(key));
addEventListener('pagehide', () => session.flush());

updateChats();
updateComposer();
conversation.show();
updateModels();
input.focus();
