//! The settings for personal data: `[modules.activity.pii]`.

use std::fmt;

use postroom_pii::{Invalid, Keys, KeywordMode};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The digits of a key's id.
const ID_DIGITS: usize = 8;

/// The treatment of searched words and of client data, and the secrets of the hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PiiSettings {
    /// The treatment of searched words.
    #[serde(deserialize_with = "keyword_mode")]
    pub keyword_mode: KeywordMode,
    /// Whether a hash of a client's address is stored.
    pub store_ip: bool,
    /// Whether a hash of a client's `User-Agent` is stored.
    pub store_user_agent: bool,
    /// The secret of the hashes: 32 bytes or more, the same in every process.
    pub hash_secret: Secret,
    /// Former secrets. The firewall recognises hashes that were made with them, and does not hash them again.
    pub hash_secrets_old: Vec<Secret>,
}

/// A text that is never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl PiiSettings {
    /// The keys of the hashes, if there is a secret. The error names the setting, and no secret.
    pub(crate) fn keys(&self) -> Result<Option<Keys>, String> {
        let Secret(secret) = &self.hash_secret;
        if secret.is_empty() {
            return match self.hash_secrets_old.is_empty() {
                true => Ok(None),
                false => Err("pii.hash_secrets_old is set without pii.hash_secret; set the new secret too".to_owned()),
            };
        }
        let keys = Keys::new(&id_of(secret), secret.as_bytes()).map_err(|error| wrong("pii.hash_secret", error))?;
        let mut old = self.hash_secrets_old.iter();
        let keys = old.try_fold(keys, |keys, Secret(old)| keys.and_older(&id_of(old), old.as_bytes()));
        keys.map(Some).map_err(|error| wrong("pii.hash_secrets_old", error))
    }
}

fn wrong(setting: &str, error: Invalid) -> String {
    match error {
        Invalid::SameKeyId { .. } => format!("{setting} has a secret twice, or the one of pii.hash_secret; remove it"),
        Invalid::Secret { reason, .. } => {
            format!("{setting} has a secret that {reason}; make one with: openssl rand -base64 48")
        }
        other => format!("{setting}: {other}"),
    }
}

/// The id of a secret: a part of one of its hashes. A new secret has another id, so operators need not number secrets.
fn id_of(secret: &str) -> String {
    let hash = Keys::new("id", secret.as_bytes()).map(|keys| keys.hash("the id of this key"));
    let digits = hash.unwrap_or_default();
    match digits.rsplit(':').next().and_then(|digits| digits.get(..ID_DIGITS)) {
        Some(digits) => digits.to_owned(),
        None => "refused".to_owned(), // the secret is refused, and its id is not used
    }
}

impl From<String> for Secret {
    fn from(secret: String) -> Self {
        Self(secret)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_set = !self.0.is_empty();
        f.write_str(if is_set { "(set)" } else { "(not set)" })
    }
}

/// An error does not repeat the value, as serde's own would.
impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(secret) => Ok(Self(secret.trim().to_owned())),
            _ => Err(D::Error::custom("must be a text in quotes")),
        }
    }
}

fn keyword_mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<KeywordMode, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "HASH" => Ok(KeywordMode::Hash),
        "DROP" => Ok(KeywordMode::Drop),
        "PLAIN" => Ok(KeywordMode::Plain),
        other => Err(D::Error::custom(format!("must be HASH, DROP or PLAIN, not {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NEW: &str = "an invented secret of the year 2026";
    const OLD: &str = "an invented secret of the year 2025";

    fn read(settings: Value) -> Result<PiiSettings, String> {
        serde_json::from_value(settings).map_err(|error| error.to_string())
    }

    #[test]
    fn a_new_secret_hashes_and_an_old_one_is_still_known() {
        let keys = |settings: Value| read(settings).unwrap().keys().unwrap().unwrap();
        let before = keys(json!({ "hash_secret": OLD }));
        let after = keys(json!({ "hash_secret": NEW, "hash_secrets_old": [OLD] }));
        let (old, new) = (before.hash("국밥"), after.hash("국밥"));
        assert_ne!(old, new);
        assert!(after.matches("국밥", &old) && after.matches("국밥", &new));
        assert!(!before.matches("국밥", &new));
    }

    #[test]
    fn a_mistake_names_the_setting_and_no_secret() {
        let check = |settings: Value, words: &str| {
            let error = read(settings).and_then(|settings| settings.keys()).unwrap_err();
            assert!(error.contains(words), "{error}");
            assert!(!error.contains("invented") && !error.contains("17171"), "{error}");
        };
        check(
            json!({ "hash_secret": "invented" }),
            "pii.hash_secret has a secret that has fewer than 32 bytes; make one with",
        );
        check(json!({ "hash_secret": 17_171_717 }), "must be a text in quotes");
        check(
            json!({ "hash_secret": NEW, "hash_secrets_old": [NEW] }),
            "pii.hash_secrets_old has a secret twice",
        );
        check(json!({ "hash_secrets_old": [OLD] }), "without pii.hash_secret");
        check(
            json!({ "hash_secret": NEW, "hash_secrets_old": ["invented"] }),
            "pii.hash_secrets_old has a secret that",
        );
        check(json!({ "keyword_mode": "hash" }), "must be HASH, DROP or PLAIN");
    }

    #[test]
    fn secrets_are_not_shown() {
        let settings = read(json!({ "hash_secret": NEW, "hash_secrets_old": [OLD] })).unwrap();
        let shown = format!("{settings:?} {:?}", settings.keys().unwrap());
        assert!(!shown.contains("invented"), "{shown}");
    }
}
