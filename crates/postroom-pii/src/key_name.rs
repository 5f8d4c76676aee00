//! Judges the keys of documents and of `key=value` texts: by their words, without case and separators.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::view::folded;
use crate::{ClientMode, Invalid, KeywordMode, Kind, Rules};

/// The treatment of a value because of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Treatment {
    Remove(Kind),
    Hash(Kind),
}

/// Only the end of a longer key is judged.
const KEY_BYTES_MAX: usize = 128;
/// The most words of a term, such as `resident registration number`.
const TERM_WORDS_MAX: usize = 4;

/// English terms. A key follows a term that its last words make: `contactPhoneNumber` ends with `phonenumber`.
const TERMS: &[(Kind, &str)] = &[
    (
        Kind::Token,
        "token jwt bearer apikey secretkey privatekey accesskey secret authorization auth \
        authcode cookie jsessionid phpsessid sessid sessionkey sid credential otp csrf xsrf",
    ),
    (Kind::Password, "password passwd pwd pw passphrase passcode"),
    (Kind::Email, "email mail emailaddress mailaddress"),
    (
        Kind::Phone,
        "phone phonenumber phoneno tel telno telnumber telephone mobilenumber mobileno cellphone \
        cellnumber hp hpno contactno contactnumber fax msisdn",
    ),
    (Kind::Card, "cardnumber cardno creditcard cvc cvv"),
    (
        Kind::ResidentNumber,
        "rrn ssn residentnumber residentregistrationnumber jumin juminno juminnumber",
    ),
    (
        Kind::ReviewBody,
        "content body review reviewtext comment commenttext feedback",
    ),
    (
        Kind::Keyword,
        "query keyword searchword searchterm searchtext searchquery q",
    ),
    (
        Kind::ClientAddress,
        "ip ipaddress clientip remoteip remoteaddr remoteaddress forwardedfor realip",
    ),
    (Kind::UserAgent, "useragent ua"),
];

/// Terms that need no word boundary before them: long English ones, and Korean ones, because Korean compounds have no boundary.
const ENDINGS: &[(Kind, &str)] = &[
    (Kind::Token, "token apikey authorization cookie 토큰 쿠키 인증번호"),
    (Kind::Password, "password passwd 비밀번호 비번 패스워드 암호"),
    (Kind::Email, "email 메일 메일주소"),
    (
        Kind::Phone,
        "phonenumber telephone 전화번호 전화 휴대폰 휴대폰번호 핸드폰 핸드폰번호 연락처",
    ),
    (Kind::Card, "cardnumber 카드번호"),
    (Kind::ResidentNumber, "주민등록번호 주민번호 외국인등록번호"),
    (Kind::ReviewBody, "리뷰 후기 본문 내용 댓글 코멘트"),
    (Kind::Keyword, "검색어 키워드"),
];

/// Keys that end like a term and are harmless.
const ALLOWED: &[&str] = &["utm_content"];

/// Last words of keys whose values are identifiers, times or amounts.
const IDENTIFIER_WORDS: &str = "id ids uuid no seq key type kind status state code version lang locale at on date time timestamp ts \
    ms sec seconds count total sum price amount score rating size bytes rank index page cursor offset";

/// The judged keys.
#[derive(Debug)]
pub(crate) struct KeyNames {
    terms: HashMap<String, Treatment>,
    endings: Vec<(String, Treatment)>,
    allowed: HashSet<String>,
}

impl KeyNames {
    pub(crate) fn new(rules: &Rules) -> Result<Self, Invalid> {
        let treatment = |kind| treatment(kind, rules);
        let built_in = |table: &[(Kind, &'static str)]| -> Vec<(String, Treatment)> {
            let pairs = table
                .iter()
                .flat_map(|(kind, terms)| terms.split_whitespace().map(|term| (*kind, term)));
            pairs
                .filter_map(|(kind, term)| Some((term.to_owned(), treatment(kind)?)))
                .collect()
        };
        let mut names = Self {
            terms: built_in(TERMS).into_iter().collect(),
            endings: built_in(ENDINGS),
            allowed: HashSet::new(),
        };
        for key in ALLOWED.iter().copied().chain(rules.allowed.iter().map(String::as_str)) {
            names.allowed.insert(joined(key)?);
        }
        for (key, kind) in &rules.denied {
            names.terms.insert(joined(key)?, Treatment::Remove(*kind));
        }
        for key in &rules.hashed {
            let key = joined(key)?;
            names
                .terms
                .extend(treatment(Kind::Keyword).map(|treatment| (key, treatment)));
        }
        Ok(names)
    }

    /// The treatment of the values of a key, if a rule is about this key. Marks in the key say nothing about its value.
    pub(crate) fn treatment(&self, key: &str) -> Option<Treatment> {
        let words = Words::of(&without_marks(key));
        if words.text.is_empty() || self.allowed.contains(&words.text) {
            return None;
        }
        let by_words = words.endings().find_map(|ending| self.term(ending));
        by_words.or_else(|| self.ending(&words.text))
    }

    fn term(&self, words: &str) -> Option<Treatment> {
        let singular = || self.terms.get(words.strip_suffix('s')?);
        self.terms.get(words).or_else(singular).copied()
    }

    fn ending(&self, words: &str) -> Option<Treatment> {
        let last = words.as_bytes().last();
        let mut endings = self
            .endings
            .iter()
            .filter(|(ending, _)| ending.as_bytes().last() == last);
        endings.find_map(|(ending, treatment)| words.ends_with(ending.as_str()).then_some(*treatment))
    }
}

/// Whether the values of a key are identifiers, times or amounts, by its last word.
pub(crate) fn is_identifier(key: &str) -> bool {
    let words = Words::of(key);
    words
        .endings()
        .last()
        .is_some_and(|word| IDENTIFIER_WORDS.split(' ').any(|known| known == word))
}

fn treatment(kind: Kind, rules: &Rules) -> Option<Treatment> {
    let is_hashed = match kind {
        Kind::Keyword if rules.keywords == KeywordMode::Plain => return None,
        Kind::Keyword => rules.keywords == KeywordMode::Hash,
        Kind::ClientAddress => rules.addresses == ClientMode::Hash,
        Kind::UserAgent => rules.user_agents == ClientMode::Hash,
        _ => false,
    };
    Some(match is_hashed {
        true => Treatment::Hash(kind),
        false => Treatment::Remove(kind),
    })
}

fn without_marks(key: &str) -> Cow<'_, str> {
    if !key.contains('[') {
        return Cow::Borrowed(key);
    }
    let without = Kind::ALL
        .iter()
        .fold(key.to_owned(), |key, kind| key.replace(kind.mark(), " "));
    Cow::Owned(without)
}

fn joined(key: &str) -> Result<String, Invalid> {
    let words = Words::of(key);
    if words.text.is_empty() {
        return Err(Invalid::KeyName { name: key.to_owned() });
    }
    Ok(words.text)
}

/// The words of a key in lower case, joined, with the places where words begin. Numbers at the end are left out.
struct Words {
    text: String,
    starts: Vec<usize>,
}

impl Words {
    fn of(key: &str) -> Self {
        let from = key.ceil_char_boundary(key.len().saturating_sub(KEY_BYTES_MAX));
        let key = folded(key.get(from..).unwrap_or_default());
        let mut words = Self {
            text: String::with_capacity(key.len()),
            starts: Vec::with_capacity(4),
        };
        let key = key.trim_end_matches(|c: char| !c.is_alphabetic());
        let mut before = [Class::Other; 2];
        for c in key.chars() {
            let class = Class::of(c);
            words.push(c, class, before);
            before = [before[1], class];
        }
        words
    }

    fn push(&mut self, c: char, class: Class, before: [Class; 2]) {
        if class == Class::Other {
            return;
        }
        let is_end_of_acronym = class == Class::Lower && before == [Class::Upper, Class::Upper];
        if is_end_of_acronym {
            self.starts.push(self.text.len() - 1);
        } else if class != before[1] && !(class == Class::Lower && before[1] == Class::Upper) {
            self.starts.push(self.text.len());
        }
        if c.is_ascii() {
            self.text.push(c.to_ascii_lowercase());
        } else {
            self.text.extend(c.to_lowercase());
        }
    }

    /// The last words, joined: the most words first.
    fn endings(&self) -> impl Iterator<Item = &str> {
        let from = self.starts.len().saturating_sub(TERM_WORDS_MAX);
        self.starts
            .iter()
            .skip(from)
            .filter_map(|start| self.text.get(*start..))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Digit,
    /// Letters without case, such as Hangul.
    Letter,
    Other,
}

impl Class {
    fn of(c: char) -> Self {
        if c.is_lowercase() {
            Self::Lower
        } else if c.is_ascii_uppercase() {
            Self::Upper
        } else if c.is_numeric() {
            Self::Digit
        } else if c.is_alphabetic() {
            Self::Letter
        } else {
            Self::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyNames, Treatment, is_identifier};
    use crate::{ClientMode, KeywordMode, Kind, Rules};

    fn check(rules: &Rules, key: &str, expected: Option<Treatment>) {
        let names = KeyNames::new(rules).unwrap();
        assert_eq!(names.treatment(key), expected, "{key}");
    }

    #[test]
    fn keys_are_judged_by_their_last_words_in_every_spelling() {
        for (kind, keys) in [
            (
                Kind::Email,
                "email Email e-mail E_MAIL userEmail USER_EMAIL useremail emails email1 이메일 회원이메일 ｅｍａｉｌ",
            ),
            (
                Kind::Phone,
                "phone phone1 contactPhoneNumber phone_no tel 전화번호 휴대폰 연락처 HP",
            ),
            (
                Kind::Password,
                "password passWord user-password PW newPassword 비밀번호",
            ),
            (
                Kind::Token,
                "accessToken access_token ACCESSTOKEN IDToken Authorization set-cookie x-api-key fcmToken sid",
            ),
            (
                Kind::ReviewBody,
                "content body reviewText review_text comment comments reviewBody review 리뷰내용",
            ),
            (Kind::ResidentNumber, "주민등록번호 rrn residentRegistrationNumber"),
            (Kind::Card, "cardNumber card_no CVC"),
            (Kind::ClientAddress, "ip clientIp X-Forwarded-For remoteAddr"),
            (Kind::UserAgent, "userAgent User-Agent ua"),
        ] {
            for key in keys.split(' ') {
                check(&Rules::default(), key, Some(Treatment::Remove(kind)));
            }
        }
    }

    #[test]
    fn keys_that_only_begin_like_a_term_are_harmless() {
        for key in "emailVerified phoneModel contentId content_type commentCount tokenCount queryHash bodyType keywordId female \
                    session_id utm_content tooltip isVip equipment zip 검색결과수 리뷰수 1234 _ 🍜"
            .split_whitespace()
        {
            check(&Rules::default(), key, None);
        }
    }

    #[test]
    fn modes_decide_about_search_words_and_clients() {
        let hash = Some(Treatment::Hash(Kind::Keyword));
        for key in "query q searchWord search_keyword keywords 검색어".split(' ') {
            check(&Rules::default(), key, hash);
            let dropped = Rules::default().keywords(KeywordMode::Drop);
            check(&dropped, key, Some(Treatment::Remove(Kind::Keyword)));
            check(&Rules::default().keywords(KeywordMode::Plain), key, None);
        }
        let hashed = Rules::default().user_agents(ClientMode::Hash);
        check(&hashed, "userAgent", Some(Treatment::Hash(Kind::UserAgent)));
        check(&hashed, "clientIp", Some(Treatment::Remove(Kind::ClientAddress)));
        let hashed = Rules::default().addresses(ClientMode::Hash);
        check(&hashed, "clientIp", Some(Treatment::Hash(Kind::ClientAddress)));
        check(&hashed, "userAgent", Some(Treatment::Remove(Kind::UserAgent)));
    }

    #[test]
    fn rules_of_users_come_on_top() {
        let rules = Rules::default()
            .deny("nickName", Kind::Custom)
            .hash("menuSearch")
            .allow("email_hash_body");
        check(&rules, "user_nick_name", Some(Treatment::Remove(Kind::Custom)));
        check(&rules, "menu-search", Some(Treatment::Hash(Kind::Keyword)));
        check(&rules, "emailHashBody", None);
        let error = KeyNames::new(&Rules::default().allow("--")).unwrap_err().to_string();
        assert_eq!(error, r#"the key name "--" in a rule has no letter"#);
    }

    #[test]
    fn identifiers_are_known_by_their_last_word() {
        for key in ["memberId", "created_at", "order_no", "totalPrice", "ts"] {
            assert!(is_identifier(key), "{key}");
        }
        for key in ["contact", "value", "no1contact", ""] {
            assert!(!is_identifier(key), "{key}");
        }
    }
}
