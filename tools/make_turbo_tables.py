#!/usr/bin/env python3
"""Writes src/ops/turbo/tables.h: signs and Lloyd-Max tables of the turbo codec.

The values are frozen: they are fits to random samples that another backend
reproduces only roughly, and stored caches depend on them. `--check` compares
the file instead of writing it; exit code 1 if it differs.
"""
import argparse
import os
import struct
import sys

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "src", "ops",
                   "turbo", "tables.h")

# Bit i of word w: element 32 w + i is negative.
SIGNS = {
    64: """
        b769548e 62de4802
    """,
    128: """
        6a39df0d 6a9c0250 4a8337d5 146059de
    """,
    256: """
        62e63012 10cd4a11 a96d146f d39c5ec9 3a2ff29b b2275d73 5730d96b fe8bc357
    """,
    512: """
        70364bbd 62fbe30d d439e463 5ccad261 9b477c8f e9dd1243 542ade30 77bacaba
        11873e84 9a4c1518 3204a3c5 5d81721f 8a821452 8ea79bc2 520e4bef 296b9d6d
    """,
}

# f32 bits, ascending.
CENTROIDS = {
    2: """
        bfc1da51 beea9c7f 3ee5b322 3fc18e33
    """,
    3: """
        c009b98c bfac053e bf4189df be7af8df 3e7af8df 3f4189df 3fac053e 4009b98c
    """,
    4: """
        c031009e c0065e96 bfd1f1d9 bfa3689c bf75d2e4 bf2c5247 becec14d be12270f
        3deff31b 3ec217d8 3f25c7a6 3f6f0c0f 3fa04b9d 3fcf95ea 4004d90f 402e2068
    """,
    5: """
        c05648fb c03190e6 c01912f3 c005ab0e bfeb4ca3 bfd04d08 bfb7e9f5 bfa145c8
        bf8c4568 bf70f0c5 bf4b1108 bf26a1ad bf02e5f1 bebf583d be73046f bdd28363
        3d023aba 3e2823aa 3e99a6ca 3ee10bb7 3f14b0fd 3f3a42b3 3f5fb7af 3f83c350
        3f98dd89 3fafba38 3fc8a89d 3fe3b262 400170dd 4013cf1b 402aa581 404ee8a0
    """,
    8: """
        c0902e85 c08e8c3c c08df60e c08cd9d2 c08b9fa9 c08aa15c c0898520 c08868e4
        c0874ca9 c086306e c0851432 c083f7f6 c08305a2 c08176da c0801579 c08011ca
        c07c5027 c07aace1 c078b98f c0764198 c0732098 c070d19f c06fa623 c06d3ed7
        c06b2d00 c0686a42 c06614ad c06522ee c0628e95 c0603ef3 c05de5e6 c05b6717
        c0597aee c0573d93 c054f537 c052afb5 c0507f90 c04e1611 c04c59d0 c04a1030
        c04727c6 c04541af c0433db1 c040f2aa c03ebaec c03c92a9 c03a50f2 c037fb6f
        c035d6aa c033972e c0316351 c02f34db c02cfcac c02a75e7 c028581c c0266024
        c023e5c4 c0219e1c c01faa0f c01d8727 c01b22f8 c018d13e c0166ed4 c0143fe0
        c012126e c00f9802 c00d6d4c c00b5504 c009430b c00720ad c00508fe c002d8ff
        c00068bd bffc24b0 bff70d7b bff25365 bfedf2e2 bfe91d6e bfe476fc bfdf8ee8
        bfdaec71 bfd6501b bfd1d70e bfcd5191 bfc910af bfc4ad9b bfc074dd bfbc0dee
        bfb7b03b bfb37b51 bfaf381c bfaaf496 bfa6a2db bfa28a03 bf9e25ec bf99c09c
        bf954edf bf90b463 bf8c478b bf87dd07 bf8384e7 bf7e7890 bf75ff43 bf6d6921
        bf6495a3 bf5bfe1e bf537e67 bf4b32d3 bf424292 bf3916a4 bf2fe7bc bf26dab3
        bf1dc2ab bf14c658 bf0bd825 bf02d94b bef33b34 bee0ff0d becf59d8 bebd5900
        beab141f be992fac be878087 be6d3fcc be4cf085 be2b3a58 be095b74 bdcd78e4
        bd8695c1 bd004d8a 3b8e4e46 3d255d98 3d989b5b 3ddc6576 3e0fce35 3e327376
        3e551f93 3e78e0a2 3e8e526e 3ea140b7 3eb3a74a 3ec65e85 3ed8377e 3ee9ea30
        3efb8983 3f0691e0 3f0f01e6 3f174e94 3f1ffd11 3f28d4a3 3f31bc91 3f3a5436
        3f433054 3f4bdfe3 3f54bbae 3f5d4c7d 3f65ea4d 3f6e9929 3f7774b2 3f8016ed
        3f84668b 3f88b64d 3f8d09c4 3f915a26 3f95d9d4 3f9a185f 3f9e92d9 3fa32077
        3fa7b4f9 3fac0c15 3fb04084 3fb45f8b 3fb8a283 3fbd0fe1 3fc1a216 3fc62baa
        3fcabd64 3fcf45e2 3fd3e426 3fd8a2fc 3fdd18bf 3fe1851a 3fe63751 3feadffa
        3fef8314 3ff3fe97 3ff8ab36 3ffd87a6 40010ddc 40032fee 40055a62 4007a269
        4009f572 400c25c3 400e64fb 40107709 4012d6c0 40152d4a 401755c2 40197ae0
        401bc051 401de7dc 402037a4 402249fe 40248ede 4026d894 4028fb22 402b13ae
        402d67f9 402fb2c3 4031e2aa 403421dc 40368427 4038a7f4 403adbeb 403d1e66
        403f3431 4041601d 4043f239 40468b8b 40494fe0 404b08df 404d220f 404f37db
        40511e24 40534af3 405568e6 4057a752 405a0a83 405c4a63 405dacae 406028ae
        4063407c 4064cbb7 4066b3d8 4068f885 406c54c6 406de922 406fec5f 4073102c
        407444fa 4076d230 40790375 407afd91 407e561e 408049c2 4080f2a9 40828bc4
        40832b1f 4084475b 408586cd 4086593e 40879c0d 4088b849 4089d485 408af0c0
    """,
}

# Of 3 bits literals (two differ from the midpoints by an ulp); the others are
# the midpoints of the centroids.
BOUNDARIES = {
    3: """
        bfdfbc2c bf866517 bf00240b 00000000 3f00240b 3f866517 3fdfbc2c
    """,
}

HEADER = """// Signs and Lloyd-Max tables of the turbo codec. Written by
// tools/make_turbo_tables.py: change it there.
#pragma once

#include <cstdint>

namespace quern::turbo {

"""


def to_float(word):
    return struct.unpack(">f", bytes.fromhex(word))[0]


def round_f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def hex_float(x):
    """A C++ literal that is x to the bit."""
    mantissa, _, exponent = x.hex().partition("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}p{exponent}f"


def midpoints(centroids):
    return [round_f32(a + b) * 0.5 for a, b in zip(centroids, centroids[1:])]


def tables(bits):
    centroids = [to_float(w) for w in CENTROIDS[bits].split()]
    assert len(centroids) == 1 << bits and centroids == sorted(centroids)
    if bits in BOUNDARIES:
        return centroids, [to_float(w) for w in BOUNDARIES[bits].split()]
    return centroids, midpoints(centroids)


def wrapped(items):
    lines, line = [], "   "
    for item in items:
        if len(line) + 2 + len(item) > 80:
            lines.append(line)
            line = "   "
        line += f" {item},"
    return "\n".join([*lines, line])


def array(declaration, items):
    return f"inline constexpr {declaration} = {{\n{wrapped(items)}\n}};\n"


def render():
    text = HEADER + "// clang-format off\n"
    text += "// Bit i of word w: element 32 w + i is multiplied by -1.\n"
    for dim, words in SIGNS.items():
        words = words.split()
        assert len(words) * 32 == dim
        text += array(f"uint32_t kSigns{dim}[{dim // 32}]", [f"0x{w}" for w in words])
    text += "\n// The values of the codes, and the bounds between them.\n"
    for bits in CENTROIDS:
        for name, values in zip(("Centroids", "Boundaries"), tables(bits)):
            text += array(f"float k{name}{bits}[{len(values)}]",
                          [hex_float(x) for x in values])
    return text + "// clang-format on\n\n}  // namespace quern::turbo\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    text = render()
    if parser.parse_args().check:
        with open(OUT) as f:
            if f.read() == text:
                return
        sys.exit("src/ops/turbo/tables.h differs from tools/make_turbo_tables.py")
    with open(OUT, "w") as f:
        f.write(text)


if __name__ == "__main__":
    main()
