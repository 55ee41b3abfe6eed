import assert from 'node:assert/strict';
import {test} from 'node:test';

import {fields, loadSettings, parseSetting, saveSettings, settingText}
    from '../../../web/settings.js';
import {Storage} from './storage.js';

const field = (name) => fields.find((field) => field.name === name);
const parse = (name, text) => parseSetting(field(name), text);

test('an empty text sets nothing', () => {
  for (const each of fields) {
    assert.deepEqual(parseSetting(each, '  '), {value: undefined});
  }
});

test('numbers in their ranges', () => {
  assert.deepEqual(parse('temperature', ' 0.7 '), {value: 0.7});
  assert.deepEqual(parse('temperature', '0,7'), {value: 0.7});
  assert.deepEqual(parse('temperature', '0'), {value: 0});
  assert.deepEqual(parse('top_k', '-1'), {value: -1});
  assert.deepEqual(parse('seed', '9007199254740991'),
                   {value: 9007199254740991});
  for (const [name, text] of [
    ['temperature', '5.1'], ['temperature', '-1'], ['temperature', 'hot'],
    ['temperature', 'NaN'], ['temperature', '1e999'], ['top_p', '1.01'],
    ['min_p', '-0.1'], ['repetition_penalty', '0'], ['top_k', '1.5'],
    ['top_k', '-2'], ['max_tokens', '0'], ['seed', '-1'],
    ['seed', '9007199254740992'],
  ]) {
    const {value, error} = parse(name, text);
    assert.equal(value, undefined, `${name} ${text}`);
    assert.match(error, /number/, `${name} ${text}`);
  }
});

test('choices and tools', () => {
  assert.deepEqual(parse('enable_thinking', 'on'), {value: true});
  assert.deepEqual(parse('enable_thinking', 'off'), {value: false});
  const tools = [{type: 'function', function: {name: 'f', parameters: {}}}];
  assert.deepEqual(parse('tools', JSON.stringify(tools)), {value: tools});
  for (const text of ['{', '{}', '[{}]', '[null]', '[{"function":{}}]']) {
    assert.ok(parse('tools', text).error, text);
  }
});

test('what is saved is loaded, and nothing that does not pass', () => {
  const storage = new Storage();
  const settings = {
    system: 'Be brief.', temperature: 0.5, top_k: 0, enable_thinking: false,
    tools: [{type: 'function', function: {name: 'f'}}],
  };
  assert.ok(saveSettings(storage, settings));
  assert.deepEqual(loadSettings(storage), settings);
  for (const each of fields) {
    const {value} = parseSetting(each, settingText(each, settings[each.name]));
    assert.deepEqual(value, settings[each.name]);
  }
  saveSettings(storage, {temperature: 99, top_p: 0.5, seed: 'x', evil: 1});
  assert.deepEqual(loadSettings(storage), {top_p: 0.5});
  for (const text of ['', '{', '[]', '7', 'null', '"x"']) {
    storage.setItem('quern.settings', text);
    assert.deepEqual(loadSettings(storage), {}, text);
  }
  assert.deepEqual(loadSettings(new Storage()), {});
  assert.equal(saveSettings(new Storage(10), settings), false);
});
