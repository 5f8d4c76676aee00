//! The claims of a token whose signature is right: pure decisions, with the time passed in.

use std::time::Duration;

use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::Refused;

/// Bytes of a member's id.
pub(crate) const MEMBER_BYTES_MAX: usize = 200;

/// The holder of a valid token.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// The subject (`sub`) of the token.
    pub id: String,
    /// From this time on the token is refused: its time of expiry (`exp`) plus the leeway.
    pub expires_at: OffsetDateTime,
    /// All claims of the token.
    pub claims: Map<String, Value>,
}

/// The rules that claims must follow.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) issuer: Option<String>,
    pub(crate) audience: Option<String>,
    /// The accepted difference between our clock and the issuer's.
    pub(crate) leeway: Duration,
}

impl Rules {
    /// The member that the claims name.
    pub(crate) fn judge(&self, claims: Map<String, Value>, now: OffsetDateTime) -> Result<Member, Refused> {
        let expires_at = time_of(claims.get("exp").ok_or(Refused::NoExpiry)?)?
            .checked_add(self.leeway())
            .ok_or(Refused::Malformed)?;
        if now >= expires_at {
            return Err(Refused::Expired);
        }
        let begins_at = claims.get("nbf").map(time_of).transpose()?;
        if begins_at.is_some_and(|begins_at| begins_at - now > self.leeway()) {
            return Err(Refused::NotYetValid);
        }
        if !self.is_from_issuer(claims.get("iss")) {
            return Err(Refused::WrongIssuer);
        }
        if !self.is_for_audience(claims.get("aud")) {
            return Err(Refused::WrongAudience);
        }
        let id = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
        if !is_member_id(id) {
            return Err(Refused::NoSubject);
        }
        Ok(Member {
            id: id.to_owned(),
            expires_at,
            claims,
        })
    }

    fn leeway(&self) -> time::Duration {
        time::Duration::try_from(self.leeway).unwrap_or(time::Duration::ZERO)
    }

    fn is_from_issuer(&self, found: Option<&Value>) -> bool {
        let expected = self.issuer.as_deref();
        expected.is_none() || expected == found.and_then(Value::as_str)
    }

    /// A token with an audience is valid for that audience only (RFC 7519, 4.1.3). Without configuration, this system is none.
    fn is_for_audience(&self, found: Option<&Value>) -> bool {
        let Some(expected) = &self.audience else {
            return found.is_none();
        };
        match found {
            Some(Value::String(one)) => one == expected,
            Some(Value::Array(several)) => several.iter().any(|one| one.as_str() == Some(expected)),
            _ => false,
        }
    }
}

/// Whether the text can be the id of a member.
pub(crate) fn is_member_id(text: &str) -> bool {
    (1..=MEMBER_BYTES_MAX).contains(&text.len())
}

/// Seconds since 1970, maybe with a fraction. Another type must not count as an absent claim.
fn time_of(claim: &Value) -> Result<OffsetDateTime, Refused> {
    let seconds = claim.as_f64().and_then(time::Duration::checked_seconds_f64);
    seconds
        .and_then(|seconds| OffsetDateTime::UNIX_EPOCH.checked_add(seconds))
        .ok_or(Refused::Malformed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn judge(rules: &Rules, claims: &Value) -> Result<Member, Refused> {
        let now = OffsetDateTime::from_unix_timestamp(NOW).unwrap();
        rules.judge(claims.as_object().unwrap().clone(), now)
    }

    /// The result for claims that replace those of a valid token. `null` removes a claim.
    fn check(rules: &Rules, changes: &Value, expected: Result<(), Refused>) {
        let mut claims = json!({ "sub": "m1", "exp": NOW + 60, "iss": "us", "aud": "here" });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        assert_eq!(judge(rules, &claims).map(|_| ()), expected, "{claims}");
    }

    fn rules() -> Rules {
        Rules {
            issuer: Some("us".to_owned()),
            audience: Some("here".to_owned()),
            leeway: Duration::from_secs(30),
        }
    }

    #[test]
    fn a_token_is_valid_from_nbf_to_exp_with_leeway() {
        let lenient = rules();
        check(&lenient, &json!({ "exp": NOW - 29 }), Ok(()));
        check(&lenient, &json!({ "exp": 1_799_999_970.5 }), Ok(()));
        check(&lenient, &json!({ "exp": NOW - 30 }), Err(Refused::Expired));
        check(&lenient, &json!({ "exp": null }), Err(Refused::NoExpiry));
        check(&lenient, &json!({ "nbf": NOW + 30 }), Ok(()));
        check(&lenient, &json!({ "nbf": NOW + 31 }), Err(Refused::NotYetValid));
        let strict = Rules {
            leeway: Duration::ZERO,
            ..rules()
        };
        check(&strict, &json!({ "exp": NOW + 1, "nbf": NOW }), Ok(()));
        check(&strict, &json!({ "exp": NOW }), Err(Refused::Expired));
        check(&strict, &json!({ "nbf": NOW + 1 }), Err(Refused::NotYetValid));
    }

    #[test]
    fn a_time_of_another_type_is_not_an_absent_time() {
        for wrong in [
            json!("4102444800"),
            json!(true),
            json!([NOW + 60]),
            json!(1e300),
            json!(1e17),
        ] {
            check(&rules(), &json!({ "exp": wrong }), Err(Refused::Malformed));
            check(&rules(), &json!({ "nbf": wrong }), Err(Refused::Malformed));
        }
        let null = json!({ "sub": "m1", "exp": null, "iss": "us", "aud": "here" });
        assert_eq!(judge(&rules(), &null), Err(Refused::Malformed));
    }

    #[test]
    fn a_configured_issuer_and_audience_must_be_there() {
        let check = |changes: &Value, expected| check(&rules(), changes, expected);
        check(&json!({}), Ok(()));
        check(&json!({ "aud": ["there", "here"] }), Ok(()));
        for wrong in [json!(null), json!("them"), json!(["us"]), json!(1)] {
            check(&json!({ "iss": wrong }), Err(Refused::WrongIssuer));
        }
        for wrong in [
            json!(null),
            json!("there"),
            json!([]),
            json!(["there"]),
            json!([1]),
            json!(1),
        ] {
            check(&json!({ "aud": wrong }), Err(Refused::WrongAudience));
        }
    }

    #[test]
    fn without_a_configured_audience_a_token_must_have_none() {
        let open = Rules {
            issuer: None,
            audience: None,
            leeway: Duration::ZERO,
        };
        check(&open, &json!({ "aud": null }), Ok(()));
        check(&open, &json!({ "aud": null, "iss": null }), Ok(()));
        check(&open, &json!({ "aud": "here" }), Err(Refused::WrongAudience));
        check(&open, &json!({ "aud": [] }), Err(Refused::WrongAudience));
    }

    #[test]
    fn a_subject_has_1_to_200_bytes() {
        let check = |subject: Value, expected| check(&rules(), &json!({ "sub": subject }), expected);
        check(json!("m".repeat(200)), Ok(()));
        for wrong in [
            json!(null),
            json!(""),
            json!("m".repeat(201)),
            json!("é".repeat(101)),
            json!(7),
        ] {
            check(wrong, Err(Refused::NoSubject));
        }
    }

    #[test]
    fn a_member_has_its_id_its_time_and_its_claims() {
        let member = judge(
            &rules(),
            &json!({ "sub": "m1", "exp": NOW, "iss": "us", "aud": "here", "team": 7 }),
        )
        .unwrap();
        assert_eq!(member.id, "m1");
        assert_eq!(member.expires_at.unix_timestamp(), NOW + 30);
        assert_eq!(member.claims["team"], 7);
    }
}
