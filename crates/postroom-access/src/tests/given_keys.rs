//! Tokens checked with a secret or with public keys in PEM.

use std::time::Duration;

use postroom::ErrorKind;
use serde_json::{Value, json};

use super::signer::{RSA_PEM, RSA_TOKEN, Signer, claims, encode, hmac, token};
use crate::{MemberKeys, Refused};

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

fn secret_keys() -> MemberKeys {
    MemberKeys::from_secret(SECRET).unwrap()
}

/// The id of the member, or the reason of the refusal.
async fn member(keys: &MemberKeys, token: &str) -> Result<String, Refused> {
    keys.verify(token).await.map(|member| member.id)
}

/// A token that the secret has signed.
fn signed(header: &Value, claims: &Value) -> String {
    token(header, claims, |message| hmac(SECRET, message))
}

#[tokio::test]
async fn a_minted_token_is_accepted_with_the_same_secret_and_settings_only() {
    let keys = secret_keys().issuer("us").audience("here");
    let token = keys.mint("member-7", Duration::from_mins(1)).unwrap();
    let found = keys.verify(&token).await.unwrap();
    assert_eq!(found.id, "member-7");
    let lifetime = found.claims["exp"].as_i64().unwrap() - found.claims["iat"].as_i64().unwrap();
    assert_eq!(
        (lifetime, &found.claims["iss"], &found.claims["aud"]),
        (60, &json!("us"), &json!("here"))
    );

    let other = MemberKeys::from_secret(&[7; 32]).unwrap().issuer("us").audience("here");
    assert_eq!(member(&other, &token).await, Err(Refused::BadSignature));
    assert_eq!(
        member(&keys.clone().issuer("them"), &token).await,
        Err(Refused::WrongIssuer)
    );
    assert_eq!(
        member(&keys.audience("there"), &token).await,
        Err(Refused::WrongAudience)
    );
    assert_eq!(member(&secret_keys(), &token).await, Err(Refused::WrongAudience));
}

#[tokio::test]
async fn each_kind_of_public_key_is_accepted_alone_and_among_others() {
    let (p256, ed25519) = (Signer::p256(), Signer::ed25519());
    let all = MemberKeys::from_pem(&[RSA_PEM, &p256.pem(), &ed25519.pem()].concat()).unwrap();
    for (pem, token) in [
        (RSA_PEM, RSA_TOKEN),
        (&p256.pem(), &p256.token(None)),
        (&ed25519.pem(), &ed25519.token(Some("ignored"))),
    ] {
        let alone = MemberKeys::from_pem(pem).unwrap();
        for keys in [&alone, &all] {
            assert_eq!(member(keys, token).await, Ok("member-7".to_owned()), "{pem}");
        }
        let (message, signature) = token.rsplit_once('.').unwrap();
        let (header, _) = message.split_once('.').unwrap();
        let other_claims = encode(json!({ "sub": "member-8", "exp": 4_102_444_800_u64 }).to_string());
        let forged = format!("{header}.{other_claims}.{signature}");
        assert_eq!(member(&alone, &forged).await, Err(Refused::BadSignature), "{pem}");
    }
    // The algorithm of one key, signed by another.
    let (claims, other_header) = (
        encode(claims().to_string()),
        encode(json!({ "alg": "RS256" }).to_string()),
    );
    let crossed = p256.sign(&format!("{other_header}.{claims}"));
    assert_eq!(member(&all, &crossed).await, Err(Refused::BadSignature));
    let replaced = MemberKeys::from_pem(&Signer::p256().pem()).unwrap();
    assert_eq!(member(&replaced, &p256.token(None)).await, Err(Refused::BadSignature));
}

#[tokio::test]
async fn the_key_decides_the_algorithm() {
    let (p256, ed25519) = (Signer::p256(), Signer::ed25519());
    let public = [RSA_PEM.to_owned(), p256.pem(), ed25519.pem()];
    let mut all: Vec<MemberKeys> = public.iter().map(|pem| MemberKeys::from_pem(pem).unwrap()).collect();
    all.push(secret_keys());

    let no_signature =
        ["none", "None", "NONE", ""].map(|name| token(&json!({ "alg": name }), &claims(), |_| Vec::new()));
    let with_signature = ["HS384", "HS512", "hs256", "none"].map(|name| signed(&json!({ "alg": name }), &claims()));
    for keys in &all {
        for token in no_signature.iter().chain(&with_signature) {
            assert_eq!(
                member(keys, token).await,
                Err(Refused::WrongAlgorithm),
                "{keys:?} {token}"
            );
        }
    }

    let tokens = [
        RSA_TOKEN,
        &p256.token(None),
        &ed25519.token(None),
        &signed(&json!({ "alg": "HS256" }), &claims()),
    ];
    for (own, keys) in all.iter().enumerate() {
        for (other, token) in tokens.iter().enumerate() {
            let expected = if own == other {
                Ok("member-7".to_owned())
            } else {
                Err(Refused::WrongAlgorithm)
            };
            assert_eq!(member(keys, token).await, expected, "{keys:?} {token}");
        }
    }
}

/// The public key is not secret: a verifier that let the token choose HMAC would use it as a secret.
#[tokio::test]
async fn a_public_key_is_never_a_secret() {
    let p256 = Signer::p256();
    for (pem, algorithm) in [(RSA_PEM, "RS256"), (&p256.pem(), "ES256")] {
        let keys = MemberKeys::from_pem(pem).unwrap();
        for secret in [pem.as_bytes(), pem.trim_end().as_bytes()] {
            let check = async |name: &str| {
                let forged = token(&json!({ "alg": name }), &claims(), |message| hmac(secret, message));
                member(&keys, &forged).await
            };
            assert_eq!(check("HS256").await, Err(Refused::WrongAlgorithm));
            assert_eq!(check(algorithm).await, Err(Refused::BadSignature));
        }
    }
}

#[tokio::test]
async fn malformed_tokens_are_refused() {
    let good = signed(&json!({ "alg": "HS256", "typ": "JWT" }), &claims());
    assert_eq!(member(&secret_keys(), &good).await, Ok("member-7".to_owned()));
    let long = json!({ "sub": "member-7", "exp": 4_102_444_800_u64, "long": "x".repeat(8 << 10) });
    for wrong in [
        "",
        ".",
        "..",
        "a.b.c",
        "no token",
        &good[1..],
        &format!("{good}="),
        &format!("{good}.a"),
        &format!("a.{good}"),
        &format!(" {good}"),
        &signed(&json!({ "alg": "HS256" }), &long),
        &signed(&json!({ "alg": "HS256" }), &json!([claims()])),
        &signed(&json!({ "alg": "HS256", "kid": 7 }), &claims()),
        &signed(&json!({ "alg": "HS256", "crit": ["b64"], "b64": false }), &claims()),
        &signed(&json!({ "typ": "JWT" }), &claims()),
        &signed(&json!("HS256"), &claims()),
    ] {
        assert_eq!(member(&secret_keys(), wrong).await, Err(Refused::Malformed), "{wrong}");
    }
    let without_exp = signed(&json!({ "alg": "HS256" }), &json!({ "sub": "member-7" }));
    assert_eq!(member(&secret_keys(), &without_exp).await, Err(Refused::NoExpiry));
    let expired = signed(&json!({ "alg": "HS256" }), &json!({ "sub": "member-7", "exp": 1 }));
    assert_eq!(member(&secret_keys(), &expired).await, Err(Refused::Expired));
}

#[test]
fn a_short_secret_is_refused_and_none_is_shown() {
    let report = MemberKeys::from_secret(&[b'x'; 31]).unwrap_err().report();
    assert!(
        report.contains("31 bytes") && report.contains("at least 32"),
        "{report}"
    );
    let shown = format!("{:?}", secret_keys());
    assert!(shown.contains("Hs256") && !shown.contains("0123"), "{shown}");
}

#[test]
fn a_pem_without_usable_public_keys_is_refused() {
    let rsa_1024 = "-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDH80/100lQg7meX1zzr2SG7Uyi
o9TyBWaMNrKG3poqlroBejajnUmJSA3Om/3Wp1GLsVDQebVlBDxIwVGKIrQwIacs
ZmEaVjq2spyqqrXO0UJE/ZdpwFwrs0KzoG8hZBbEAX2Oc6q+2h0mQiKY3lknxpgN
b+StG69zkHw30gnIFQIDAQAB
-----END PUBLIC KEY-----";
    let p256 = Signer::p256().pem();
    for (pem, expected) in [
        ("", "0 public keys"),
        ("0123456789abcdef0123456789abcdef", "0 public keys"),
        (&p256.repeat(17), "17 public keys"),
        (rsa_1024, "fewer than 2048"),
        (&p256.replace("PUBLIC KEY", "PRIVATE KEY"), "a private key"),
        (&p256.replace("PUBLIC KEY", "CERTIFICATE"), "not a public key"),
        (&RSA_PEM.replace("PUBLIC KEY", "RSA PUBLIC KEY"), "not a public key"),
        (
            &format!("{p256}{}", RSA_PEM.replace("PUBLIC KEY", "RSA PUBLIC KEY")),
            "not a public key",
        ),
        (&RSA_PEM.replace("MIIBIjAN", "MIIBIzAN"), "not well-formed"),
        (&RSA_PEM.replace("AQ8AMIIB", "AQ8BMIIB"), "not well-formed"),
        (&RSA_PEM.replace("-----END", "secret\n-----END"), "not well-formed"),
        (&p256.replace("-----END PUBLIC KEY-----", ""), "not well-formed"),
    ] {
        let report = MemberKeys::from_pem(pem).unwrap_err().report();
        assert!(
            report.contains(expected) && !report.contains("secret"),
            "{report}\n{pem}"
        );
    }
}

#[test]
fn only_a_secret_mints_and_only_sensible_tokens() {
    let minute = Duration::from_mins(1);
    let public = MemberKeys::from_pem(RSA_PEM).unwrap();
    let server = MemberKeys::from_jwks("https://example.com/keys").unwrap();
    for (keys, expected) in [(public, "public keys"), (server, "a key server")] {
        let error = keys.mint("member-7", minute).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.report().contains(expected), "{error}");
    }
    let long = "m".repeat(201);
    for (id, lifetime) in [
        ("", minute),
        (&long, minute),
        ("m", Duration::from_millis(999)),
        ("m", Duration::from_secs(1 << 40)),
        ("m", Duration::MAX),
    ] {
        let error = secret_keys().mint(id, lifetime).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
}

#[test]
fn the_leeway_has_a_limit() {
    assert!(secret_keys().leeway(Duration::from_mins(5)).is_ok());
    let report = secret_keys().leeway(Duration::from_secs(301)).unwrap_err().report();
    assert!(report.contains("301s") && report.contains("300s"), "{report}");
}
