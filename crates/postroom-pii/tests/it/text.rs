//! Texts, paths and bytes before and after.

use postroom_pii::Kind;

use crate::firewall;

fn check(text: &str, expected: &str) {
    assert_eq!(firewall().clean_text(text).value, expected, "{text}");
}

#[test]
fn only_the_finding_is_replaced() {
    check("제 메일은 kim@example.com이에요", "제 메일은 [email]이에요");
    check("kim (at) example.com, 02-1234-5678", "[email], [phone]");
    check("공일공 일이삼사 오육칠팔이에요", "[phone]이에요");
    check("주민번호 900101-1234567 확인", "주민번호 [resident_number] 확인");
    check("카드 4111-1111-1111-1111.", "카드 [card].");
    check(
        "와이파이 비밀번호는 guest1234!입니다",
        "와이파이 비밀번호는 [password]입니다",
    );
    check(
        "GET /a?token=abc&page=2 HTTP/1.1",
        "GET /a?token=[token]&page=2 HTTP/1.1",
    );
    check("https://kim:pw@localhost/a", "https://[password]@localhost/a");
    check("/u/a2ltQGV4YW1wbGUuY29t", "[email]");
    check("a%20kim%40example.com%20b", "a%20[email]%20b");
    check(
        "Authorization: Custom abc\nHost: shop.example",
        "Authorization: [token]\nHost: shop.example",
    );
    check(r#"{"password":"x","n":"#, r#"{"password":"[password]","n":"#);
    check("sid=abc; theme=dark", "sid=[token]; theme=dark");
}

#[test]
fn numbers_that_look_similar_stay() {
    for text in [
        "2024-01-31T00:12:34.567+09:00",
        "20240131001234",
        "1767225600000",
        "1801011234561",
        "37.4979462, 127.0276368",
        "127.01012345678",
        "12,345,678원",
        "550e8400-e29b-41d4-a716-446655440000",
        "01012345-6789-4abc-8def-010123456789",
        "3f01012345678a9c",
        "3f01012345678",
        "01012345678a9",
        "550e8400-e29b-41d4-a716-821012345678",
        "1588-1234",
        "2024-02-123-4567",
        "01-02-2024",
        "ORD-2026-000123",
        "240131-0001234",
        "1.2.3.4567",
        "101010101010",
        "9788966262281",
        "4111111111111112",
        "0101010101",
        "a1b2c3d4e5f60718293a4b5c6d7e8f901a2b3c4d",
        "10.0.0.1:8080",
        "16:9",
        "1,2,3,4,5,6,7,8,9,10",
    ] {
        check(text, text);
    }
}

#[test]
fn words_that_look_similar_stay() {
    for text in [
        "골뱅이 소면",
        "burger @ midnight",
        "@hanok.official",
        "react@18.2.0",
        "logo@2x.png",
        "look at booking.com",
        "Basic information",
        "비밀번호 찾기",
        "비밀번호 8자리 이상",
        "password is required",
        "token: null",
        "Unexpected token < in JSON",
        "/help/전화번호-변경",
        "일이삼사 오육칠팔 구십",
        "공공칠빵",
        "utm_content=banner&utm_source=naver",
        "sk-telecom-membership-event-2026",
        "a=b=c",
        "restaurantDetailView",
        "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7",
        "bearer of news",
    ] {
        check(text, text);
    }
}

#[test]
fn a_forged_mark_or_hash_hides_nothing() {
    check("password=[password]hunter2", "password=[password]");
    check(
        "?q=h:k1:zz&x=1",
        &format!("?q={}&x=1", firewall().keys().hash("h:k1:zz")),
    );
    check("[email]kim@example.com", "[email][email]");
}

#[test]
fn bytes_are_read_as_well_as_they_can_be() {
    let firewall = firewall();
    let clean = |bytes: &[u8]| String::from_utf8(firewall.clean_bytes(bytes).value).unwrap();
    assert_eq!(
        clean(b"\xff\xfe kim@example.com \x80"),
        "\u{fffd}\u{fffd} [email] \u{fffd}"
    );
    let utf16: Vec<u8> = "to kim@example.com!"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    assert_eq!(clean(&utf16).replace('\0', ""), "to [email]!");
    assert_eq!(clean(b"\0\x01\x02plain"), "\0\x01\x02plain");
    let message = firewall.clean_bytes(br#"{"email":"x","n":1}"#);
    assert_eq!(
        (message.value.as_slice(), message.removed.count(Kind::Email)),
        (br#"{"n":1}"#.as_slice(), 1)
    );
}
