// Statements in TAP ("ok 1 - ..."), and what the programs of these tests share. Needs no library.
#pragma once

#include <cstdio>

namespace statements {

inline int count = 0, failed = 0;

inline void holds(bool condition, const char *statement, const char *why = "") {
    std::printf("%sok %d - %s\n", condition ? "" : "not ", ++count, statement);
    if (!condition) {
        std::printf("# %s\n", why);
        failed++;
    }
    std::fflush(stdout);
}

inline int end() {
    std::printf("1..%d\n", count);
    return failed != 0 ? 1 : 0;
}

} // namespace statements
