// Between a row's own planes (ops/attention/attention.h) and the interchange
// form (form.h): the stored bytes in another order, never decoded.
#pragma once

#include "kv/form.h"
#include "kv/layout.h"
#include "ops/attention/attention.h"

namespace quern {

KvForm form_of(const KvShape& shape);

// The tokens at positions [range.begin, range.end) of evaluated `own` planes:
// [1, kv_heads, T, last].
Planes to_interchange(const KvShape& shape, const mx::array& own,
                      const Layout& layout, Range range);
// Planes of the layout's capacity that hold such tokens as its last ones, and
// zeros.
mx::array from_interchange(const KvShape& shape, const Planes& planes,
                           const Layout& layout);

}  // namespace quern
