// SHA-256 against the examples of its standard (FIPS 180-4, NIST's example values).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/sha256.h"

#define TWO_BLOCKS "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"

static void check_hash(const uint8_t hash[SHA256_SIZE], const char *wanted)
{
    char hex[2 * SHA256_SIZE + 1];
    for (int i = 0; i < SHA256_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", hash[i]);
    assert_string_equal(hex, wanted);
}

static void check(const char *text, const char *wanted)
{
    uint8_t hash[SHA256_SIZE];
    assert_int_equal(sha256(text, strlen(text), hash, NULL), 0);
    check_hash(hash, wanted);
}

static void standard_examples(void **state)
{
    (void)state;
    check("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check(TWO_BLOCKS, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void a_million_in_uneven_pieces(void **state)
{
    (void)state;
    struct sha256 h;
    uint8_t hash[SHA256_SIZE];
    char piece[1000];
    memset(piece, 'a', sizeof piece);
    assert_int_equal(sha256_init(&h, NULL), 0);
    for (size_t left = 1000000, n = 0; left > 0; left -= n) {
        n = left < (n + 1) % 1000 ? left : (n + 1) % 1000;
        sha256_update(&h, piece, n);
    }
    sha256_final(&h, hash);
    check_hash(hash, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void half_made_hashes_are_freed(void **state)
{
    (void)state;
    struct sha256 h = {0};
    sha256_done(&h);
    assert_int_equal(sha256_init(&h, NULL), 0);
    sha256_update(&h, "x", 1);
    sha256_done(&h);
    sha256_done(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(standard_examples),
        cmocka_unit_test(a_million_in_uneven_pieces),
        cmocka_unit_test(half_made_hashes_are_freed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
