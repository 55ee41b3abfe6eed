// The dialog of the settings: checked and saved when it is left with Save.

import {el} from './dom.js';
import {fields, parseSetting, settingText} from './settings.js';

// `apply(settings)` is called with the new settings.
export function openSettings(dialog, settings, apply) {
  const inputs = new Map(
      fields.map((field) => [field, inputOf(field, settings[field.name])]));
  const clear = () => {
    for (const [field, input] of inputs) {
      input.value = '';
      check(field, input);
    }
  };
  const form = el('form', {
    method: 'dialog', noValidate: true,
    onsubmit: (event) => {
      const changed = {};
      for (const [field, input] of inputs) {
        const value = check(field, input);
        if (value !== undefined) changed[field.name] = value;
      }
      const wrong = [...inputs.values()].find(
          (input) => input.ariaInvalid === 'true');
      if (wrong) {
        event.preventDefault();
        wrong.focus();
      } else {
        apply(changed);
      }
    },
  },
  el('h2', {}, 'Settings'),
  el('p', {class: 'note'}, 'What is empty is left to the server.'),
  el('div', {class: 'fields'}, ...[...inputs].map(row)),
  el('div', {class: 'buttons'},
     el('button', {type: 'button', class: 'text-button', onclick: clear},
        'Clear all'),
     el('button', {type: 'button', onclick: () => dialog.close()}, 'Cancel'),
     el('button', {class: 'primary'}, 'Save')));
  dialog.replaceChildren(form);
  form.querySelector('textarea').autofocus = true;
  dialog.showModal();
}

function inputOf(field, value) {
  const id = `setting-${field.name}`;
  const properties = {
    id, name: field.name, 'aria-describedby': `${id}-hint ${id}-error`,
  };
  let input;
  if (field.kind === 'choice') {
    input = el('select', properties, ...field.choices.map(
        ([choice, label]) => el('option', {value: choice}, label)));
  } else if (field.kind === 'text' || field.kind === 'tools') {
    input = el('textarea', {...properties, rows: 3, spellcheck: false});
  } else {
    input = el('input', {
      ...properties, inputMode: 'decimal', autocomplete: 'off',
      placeholder: 'default',
    });
  }
  input.value = settingText(field, value);
  input.onchange = () => check(field, input);
  return input;
}

function row([field, input]) {
  const wide = field.kind === 'text' || field.kind === 'tools';
  return el('div', {class: wide ? 'field wide' : 'field'},
            el('label', {htmlFor: input.id}, field.label), input,
            el('p', {class: 'hint', id: `${input.id}-hint`}, field.hint),
            el('p', {class: 'wrong', id: `${input.id}-error`, hidden: true}));
}

// Shows what is wrong with an input; returns its value.
function check(field, input) {
  const {value, error} = parseSetting(field, input.value);
  input.ariaInvalid = String(error !== undefined);
  const line = input.form.querySelector(`#${input.id}-error`);
  line.hidden = error === undefined;
  line.textContent = error ?? '';
  return value;
}
