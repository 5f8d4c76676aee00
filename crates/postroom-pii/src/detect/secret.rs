//! Tokens, keys and passwords that are known by their form.

use std::ops::Range;

use regex::Regex;

use super::encoded::decode_base64;
use crate::hints::Hints;
use crate::{Invalid, Kind};

/// The forms of tokens, each of which is removed as a whole.
const TOKENS: &[&str] = &[
    // JWT, signed or encrypted.
    r"eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)*",
    // Keys of well-known services.
    r"(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{8,}",
    r"(?-u:\b)sk-(?:proj-|ant-)?[A-Za-z0-9]{20,}[A-Za-z0-9_-]*",
    r"gh[pousr]_[A-Za-z0-9]{16,}",
    r"github_pat_[A-Za-z0-9_]{16,}",
    r"glpat-[A-Za-z0-9_-]{16,}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    r"AIza[A-Za-z0-9_-]{30,}",
    r"ya29\.[A-Za-z0-9_-]{10,}",
    r"(?-u:\b)SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",
    r"npm_[A-Za-z0-9]{30,}",
    r"ph[cx]_[A-Za-z0-9]{20,}",
    r"shp(?:at|ss|ca|pa)_[A-Fa-f0-9]{16,}",
    r"whsec_[A-Za-z0-9+/=]{16,}",
    r"hooks\.slack\.com/services/[A-Za-z0-9/]+",
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
];

/// Forms whose first group is removed if it looks like a password.
const PASSWORDS: &[&str] = &[
    r"(?:비밀번호|비번|패스워드|암호)(?:는|은|가|이|를|을)?\s{0,3}[:=]?\s{0,3}([!-Z\\^-~][!-~]{3,})",
    r#"(?i)(?:password|passcode|passwd|pwd)\s{1,3}(?:is|was)\s{1,3}["']?([^\s"'\[][^\s"']{2,})"#,
];

/// The shortest text that can have a token.
const TOKEN_BYTES_MIN: usize = 14;

/// The fewest digits of a mobile number with letters for digits.
const MOBILE_DIGITS_MIN: usize = 6;

/// The compiled forms.
#[derive(Debug)]
pub(crate) struct Secrets {
    tokens: Regex,
    bearer: Regex,
    passwords: Regex,
    user_part: Regex,
    login_code: Regex,
    basic: Regex,
    push_token: Regex,
    lettered_mobile: Regex,
}

impl Secrets {
    pub(crate) fn new() -> Result<Self, Invalid> {
        Ok(Self {
            tokens: compiled(&TOKENS.join("|"))?,
            bearer: compiled(r"(?i)bearer[\s:]+[a-z0-9._~+/=-]{8,}")?,
            passwords: compiled(&PASSWORDS.join("|"))?,
            user_part: compiled(r#"://([^\s/?#@\[\]"'<>]+)@"#)?,
            login_code: compiled(r"[?&]code=([A-Za-z0-9._~%/+=-]{16,})")?,
            push_token: compiled(r"[A-Za-z0-9_-]*:APA91b[A-Za-z0-9_-]{50,}")?,
            basic: compiled(r"(?i:basic)\s+([A-Za-z0-9+/_-]{8,}={0,2})")?,
            lettered_mobile: compiled(
                r"(?-u:\b)[0Oo][1lI][0Oo16-9][-. ]{0,3}[0-9OoIl]{3,4}[-. ]{0,3}[0-9OoIl]{4}(?-u:\b)",
            )?,
        })
    }

    /// Reports each secret, and each mobile number with letters for digits.
    pub(crate) fn find(&self, text: &str, hints: &Hints, mut report: impl FnMut(Range<usize>, Kind)) {
        if text.len() >= TOKEN_BYTES_MIN {
            self.tokens
                .find_iter(text)
                .for_each(|found| report(found.range(), Kind::Token));
        }
        if text.contains(":APA91b") {
            self.push_token
                .find_iter(text)
                .for_each(|found| report(found.range(), Kind::Token));
        }
        if text.contains("code=") && text.contains("state=") {
            let found = self
                .login_code
                .captures_iter(text)
                .filter_map(|captures| captures.get(1));
            found.for_each(|found| report(found.range(), Kind::Token));
        }
        if text.contains("://") {
            let found = self
                .user_part
                .captures_iter(text)
                .filter_map(|captures| captures.get(1));
            found.for_each(|found| report(found.range(), Kind::Password));
        }
        if hints.has_space || hints.has_assignment {
            self.bearer
                .find_iter(text)
                .for_each(|found| report(found.range(), Kind::Token));
        }
        if hints.has_space || hints.has_letters_of_other_scripts {
            self.find_passwords(text, &mut report);
        }
        if hints.digits >= MOBILE_DIGITS_MIN {
            let mobiles = self
                .lettered_mobile
                .find_iter(text)
                .filter(|found| is_mostly_digits(found.as_str()));
            mobiles.for_each(|found| report(found.range(), Kind::Phone));
        }
    }

    fn find_passwords(&self, text: &str, mut report: impl FnMut(Range<usize>, Kind)) {
        let values = self
            .passwords
            .captures_iter(text)
            .filter_map(|captures| captures.get(1).or(captures.get(2)));
        for value in values.filter(|value| is_like_a_password(value.as_str())) {
            report(value.range(), Kind::Password);
        }
        for captures in self.basic.captures_iter(text) {
            let is_pair = captures
                .get(1)
                .is_some_and(|pair| decode_base64(pair.as_str().as_bytes()).contains(&b':'));
            if let Some(found) = captures.get(0).filter(|_| is_pair) {
                report(found.range(), Kind::Password);
            }
        }
    }
}

/// A regular expression of this crate or of a user.
pub(crate) fn compiled(pattern: &str) -> Result<Regex, Invalid> {
    Regex::new(pattern).map_err(|source| Invalid::Pattern {
        pattern: pattern.to_owned(),
        source: Box::new(source),
    })
}

fn is_like_a_password(text: &str) -> bool {
    let has_letter = text.bytes().any(|byte| byte.is_ascii_alphanumeric());
    has_letter
        && text
            .bytes()
            .any(|byte| byte.is_ascii_digit() || b"!@#$%^&*~".contains(&byte))
}

fn is_mostly_digits(text: &str) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    digits >= MOBILE_DIGITS_MIN && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}
