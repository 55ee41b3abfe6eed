// C ABI of the Rust library: tokenizers and chat templates, for the C++ of this
// room alone. No call keeps a pointer that it was given; what it hands out
// belongs to the library until the matching _free.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct QtTokenizer QtTokenizer;
typedef struct QtTemplate QtTemplate;

// Bytes that the caller holds.
typedef struct {
  const char* data;
  size_t size;
} QtView;

// Bytes that the library holds: free with qt_text_free. UTF-8.
typedef struct {
  char* data;
  size_t size;
  size_t capacity;
} QtText;

// Ids that the library holds: free with qt_ids_free.
typedef struct {
  int32_t* data;
  size_t size;
  size_t capacity;
} QtIds;

// A GGUF file's vocabulary. Ids are -1 where the file names none; flags are
// 0, 1, or -1 where the file does not say.
typedef struct {
  QtView model;
  QtView pre;
  const QtView* tokens;
  const float* scores;   // one a token, or null
  const int32_t* types;  // one a token, or null
  size_t token_count;
  const QtView* merges;
  size_t merge_count;
  int32_t bos, eos, unk;
  int add_bos, add_eos, add_space_prefix;
} QtVocabulary;

// Where the leading space of a metaspace tokenizer is dropped again.
enum { QT_STRIP_NONE = 0, QT_STRIP_FIRST = 1, QT_STRIP_EACH = 2 };

// What the tokens stand for. Pointers live as long as the tokenizer.
typedef struct {
  size_t count;
  const uint32_t* offsets;  // count + 1 offsets into bytes
  const uint8_t* bytes;
  const uint8_t* special;  // 1 where a token is special
  int strip;
  const int32_t* prefix;  // ids put before and after a text
  size_t prefix_size;
  const int32_t* suffix;
  size_t suffix_size;
} QtTable;

// Each returns null and sets error on failure.
QtTokenizer* qt_tokenizer_from_json(QtView json, QtText* error);
QtTokenizer* qt_tokenizer_from_vocabulary(const QtVocabulary* vocabulary,
                                          QtText* error);
void qt_tokenizer_free(QtTokenizer* tokenizer);
void qt_tokenizer_table(const QtTokenizer* tokenizer, QtTable* table);

// Ids of a text, without those of prefix and suffix. With parse_special = 0 the
// text gives no special token, however it is spelled. Returns 0 and sets error
// on failure, as all that follow.
int qt_tokenizer_encode(const QtTokenizer* tokenizer, QtView text,
                        int parse_special, QtIds* ids, QtText* error);

// Puts `mark`, a code point that the text does not hold, into every spelling of
// a special token, so that encode_marked takes it as text.
int qt_tokenizer_mark(const QtTokenizer* tokenizer, QtView text, uint32_t mark,
                      QtText* marked, QtText* error);
int qt_tokenizer_encode_marked(const QtTokenizer* tokenizer, QtView text,
                               uint32_t mark, QtIds* ids, QtText* error);

// The id of a token by its name (as in the vocabulary), or -1.
int32_t qt_tokenizer_id(const QtTokenizer* tokenizer, QtView token);

QtTemplate* qt_template_new(QtView source, QtText* error);
void qt_template_free(QtTemplate* tmpl);
// `context` is a JSON object: the names that the template sees. strftime_now
// sees `now`, in seconds since 1970. `mark` is a code point that JSON output
// leaves as it is even where it is to be ASCII; 0 for none.
int qt_template_render(const QtTemplate* tmpl, QtView context, int64_t now,
                       uint32_t mark, QtText* text, QtText* error);

void qt_text_free(QtText text);
void qt_ids_free(QtIds ids);

#ifdef __cplusplus
}
#endif
