//! Keyed hashes of search words: HMAC-SHA256, with the id of the key in the result.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use unicode_normalization::UnicodeNormalization;

use crate::Invalid;

const SECRET_BYTES_MIN: usize = 32;
const ID_BYTES_MAX: usize = 16;
/// The first 128 bits of the HMAC are kept: enough to tell words apart, and half of the length.
const HASH_BYTES: usize = 16;
const PREFIX: &str = "h:";

/// The keys of the hashes. The first key hashes; all keys compare.
#[derive(Clone)]
pub struct Keys {
    keys: Vec<Key>,
}

#[derive(Clone)]
struct Key {
    id: String,
    mac: Hmac<Sha256>,
}

impl Keys {
    /// The key that hashes: an id of at most 16 characters (`a-z`, `0-9`, `-`, `_`) and a secret of at least 32 bytes.
    pub fn new(id: &str, secret: &[u8]) -> Result<Self, Invalid> {
        let key = Key::new(id, secret)?;
        Ok(Self { keys: vec![key] })
    }

    /// Adds a key that hashed before. [`Keys::matches`] still knows its hashes.
    pub fn and_older(mut self, id: &str, secret: &[u8]) -> Result<Self, Invalid> {
        if self.keys.iter().any(|key| key.id == id) {
            return Err(Invalid::SameKeyId { id: id.to_owned() });
        }
        self.keys.push(Key::new(id, secret)?);
        Ok(self)
    }

    /// `h:<key id>:<32 hex digits>`. Texts that differ only in case, white space or Unicode form have the same hash.
    #[must_use]
    pub fn hash(&self, text: &str) -> String {
        self.keys.first().map_or_else(String::new, |key| key.hash(text))
    }

    /// Whether a hash is the hash of this text by any of the keys.
    #[must_use]
    pub fn matches(&self, text: &str, hash: &str) -> bool {
        let Some((id, bytes)) = parts(hash) else { return false };
        let key = self.keys.iter().find(|key| key.id == id);
        key.is_some_and(|key| key.digest(text).verify_truncated_left(&bytes).is_ok())
    }

    /// Whether a text has the form of a hash by one of these keys.
    pub(crate) fn is_hash(&self, text: &str) -> bool {
        parts(text).is_some_and(|(id, _)| self.keys.iter().any(|key| key.id == id))
    }

    /// The hash that begins at the start of the text.
    pub(crate) fn leading_hash<'a>(&self, text: &'a str) -> Option<&'a str> {
        let rest = text.strip_prefix(PREFIX)?;
        let id_end = rest.bytes().take(ID_BYTES_MAX + 1).position(|byte| byte == b':')?;
        let end = PREFIX.len() + id_end + 1 + 2 * HASH_BYTES;
        let hash = text.get(..end)?;
        let is_longer = text.as_bytes().get(end).is_some_and(u8::is_ascii_alphanumeric);
        (!is_longer && self.is_hash(hash)).then_some(hash)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.keys.iter().map(|key| &key.id).collect();
        f.debug_struct("Keys").field("ids", &ids).finish_non_exhaustive()
    }
}

impl Key {
    fn new(id: &str, secret: &[u8]) -> Result<Self, Invalid> {
        let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
        if id.is_empty() || id.len() > ID_BYTES_MAX || !id.bytes().all(is_known) {
            return Err(Invalid::KeyId { id: id.to_owned() });
        }
        let refuse = |reason| Invalid::Secret {
            id: id.to_owned(),
            reason,
        };
        if secret.len() < SECRET_BYTES_MIN {
            return Err(refuse("has fewer than 32 bytes"));
        }
        if secret.iter().all(|byte| Some(byte) == secret.first()) {
            return Err(refuse("repeats one byte"));
        }
        let mac = Hmac::new_from_slice(secret).map_err(|_length| refuse("has a length that HMAC does not take"))?;
        Ok(Self { id: id.to_owned(), mac })
    }

    fn digest(&self, text: &str) -> Hmac<Sha256> {
        let mut mac = self.mac.clone();
        mac.update(normalised(text).as_bytes());
        mac
    }

    fn hash(&self, text: &str) -> String {
        let digest = self.digest(text).finalize().into_bytes();
        let mut hash = format!("{PREFIX}{}:", self.id);
        for byte in digest.iter().take(HASH_BYTES) {
            for nibble in [byte >> 4, byte & 0x0f] {
                hash.extend(char::from_digit(nibble.into(), 16));
            }
        }
        hash
    }
}

/// NFKC in lower case, without white space at the ends, and with single spaces inside.
fn normalised(text: &str) -> String {
    let lower: String = text.nfkc().flat_map(char::to_lowercase).nfkc().collect();
    let words: Vec<_> = lower.split_whitespace().collect();
    words.join(" ")
}

/// The key id and the bytes of a hash.
fn parts(hash: &str) -> Option<(&str, [u8; HASH_BYTES])> {
    let (id, digits) = hash.strip_prefix(PREFIX)?.split_once(':')?;
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != 2 * HASH_BYTES || !digits.bytes().all(is_hex) {
        return None;
    }
    let mut bytes = [0; HASH_BYTES];
    for (byte, pair) in bytes.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some((id, bytes))
}

#[cfg(test)]
mod tests {
    use super::Keys;

    const OLD: &[u8] = b"an invented secret, used only here 1";
    const NEW: &[u8] = b"an invented secret, used only here 2";

    #[test]
    fn a_hash_names_its_key_and_equals_the_first_half_of_hmac_sha256() {
        let keys = Keys::new("k1", &[b"0123456789abcdef".as_slice(), b"0123456789abcdef"].concat()).unwrap();
        // echo -n '강남 맛집' | openssl dgst -sha256 -hmac 0123456789abcdef0123456789abcdef
        assert_eq!(keys.hash("강남 맛집"), "h:k1:bb869974ad5e97cd1016c055cc8cfab0");
    }

    #[test]
    fn texts_that_read_the_same_have_one_hash() {
        let keys = Keys::new("k1", NEW).unwrap();
        for same in ["Pasta  Bar", " pasta bar ", "ＰＡＳＴＡ\u{3000}bar", "pasta\tbar\n"] {
            assert_eq!(keys.hash(same), keys.hash("pasta bar"), "{same:?}");
        }
        assert_eq!(keys.hash("\u{1100}\u{1161}"), keys.hash("가"), "decomposed Hangul");
        assert_ne!(keys.hash("pastabar"), keys.hash("pasta bar"));
    }

    #[test]
    fn after_a_rotation_the_new_key_hashes_and_all_keys_match() {
        let before = Keys::new("2025", OLD).unwrap();
        let after = Keys::new("2026", NEW).unwrap().and_older("2025", OLD).unwrap();
        let (old, new) = (before.hash("국밥"), after.hash("국밥"));
        assert!(old.starts_with("h:2025:") && new.starts_with("h:2026:"), "{old} {new}");
        assert!(after.matches("국밥", &old) && after.matches(" 국밥", &new));
        assert!(!before.matches("국밥", &new), "an unknown key");
        assert!(!after.matches("냉면", &new));
        let flipped = if new.ends_with('0') { '1' } else { '0' };
        let changed = format!("{}{flipped}", &new[..new.len() - 1]);
        assert!(!after.matches("국밥", &changed), "another last digit");
        let renamed = new.replace("2026", "2025");
        assert!(!after.matches("국밥", &renamed), "the id of another key");
        for broken in ["", "h:2026:", "h:2026:zz", &new[..new.len() - 1], &new.to_uppercase()] {
            assert!(!after.matches("국밥", broken), "{broken}");
        }
    }

    #[test]
    fn weak_secrets_and_bad_ids_are_refused_with_the_way_out() {
        let check = |id: &str, secret: &[u8], expected: &str| {
            let error = Keys::new(id, secret).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("k1", b"short", "fewer than 32 bytes; generate one with");
        check("k1", &[7; 40], "repeats one byte");
        check("", NEW, "1 to 16 characters");
        check("K:1", NEW, "1 to 16 characters");
        check("a-very-long-key-id", NEW, "1 to 16 characters");
        let twice = Keys::new("k1", NEW).unwrap().and_older("k1", OLD).unwrap_err();
        assert!(twice.to_string().contains("two hash keys"), "{twice}");
    }

    #[test]
    fn debug_output_has_ids_only() {
        let keys = Keys::new("k1", NEW).unwrap();
        assert_eq!(format!("{keys:?}"), r#"Keys { ids: ["k1"], .. }"#);
    }
}
