#include "common/crypto.h"

#include <gtest/gtest.h>

namespace muster::crypto {
namespace {

// FIPS 180-4's examples.
TEST(Crypto, Sha256OfKnownTexts) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Crypto, Sha256InPiecesIsTheSame) {
  const std::string text(100'003, 'x');
  Sha256 hash;
  hash.update(text.data(), 1);
  hash.update(text.data(), 0);
  hash.update(text.data() + 1, text.size() - 1);
  EXPECT_EQ(hash.hex(), sha256_hex(text));
}

// RFC 4231, test cases 1 and 2.
TEST(Crypto, HmacOfKnownTexts) {
  EXPECT_EQ(to_hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(to_hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(Crypto, ComparesWholeTexts) {
  EXPECT_TRUE(equal_constant_time("abc", "abc"));
  EXPECT_TRUE(equal_constant_time("", ""));
  EXPECT_FALSE(equal_constant_time("abc", "abd"));
  EXPECT_FALSE(equal_constant_time("abc", "ab"));
  EXPECT_FALSE(equal_constant_time("ab", "abc"));
}

TEST(Crypto, RandomBytesAreNotRepeated) {
  EXPECT_EQ(random_bytes(32).size(), 32u);
  EXPECT_NE(random_bytes(32), random_bytes(32));
  EXPECT_EQ(to_hex(std::string("\x00\xff", 2)), "00ff");
}

}  // namespace
}  // namespace muster::crypto
