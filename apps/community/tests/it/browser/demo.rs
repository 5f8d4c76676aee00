//! The demonstration.

use postroom_host::Doors;
use postroom_testkit::client::Answer;
use serde_json::json;

use super::Stand;
use super::site::Site;

const TOKEN: &str = "/community/demo/token";

async fn ask(site: &Site, headers: &[(&str, &str)], member: i64) -> Answer {
    let body = json!({ "memberId": member }).to_string();
    site.client().must("POST", TOKEN, headers, &body).await
}

#[tokio::test]
async fn tokens_of_the_demonstration_are_for_callers_on_this_machine_at_an_unlocked_server() {
    let site = Site::start().await;
    let minted = ask(&site, &[], 1).await.ok();
    let bearer = format!("Bearer {}", minted["token"].as_str().unwrap());
    let own = site
        .client()
        .must("GET", "/api/notifications/unread", &[("authorization", &bearer)], "")
        .await;
    assert_eq!(own.ok(), json!({ "unread": 0 }));
    assert_eq!(minted["expiresInSeconds"], 600);
    // Others are not in it.
    assert_eq!(ask(&site, &[], 3).await.code(), "invalid");
    // A token of a member is no reason to mint another, nor is a proxy on this machine.
    assert_eq!(ask(&site, &[("authorization", &bearer)], 2).await.code(), "forbidden");
    assert_eq!(
        ask(&site, &[("x-forwarded-for", "203.0.113.9")], 1).await.code(),
        "forwarded"
    );
    assert_eq!(
        ask(&site, &[("origin", "https://evil.example")], 1).await.code(),
        "origin"
    );
    for path in ["/community/demo", "/community/demo/main.js", "/community/demo/numbers"] {
        let answer = site.client().must("GET", path, &[("authorization", &bearer)], "").await;
        assert_eq!(answer.code(), "forbidden", "{path}");
    }
    let locked = Site::with(Doors::locked()).await;
    assert_eq!(ask(&locked, &[], 1).await.code(), "unauthenticated");
    assert_eq!(locked.client().get("/community/demo").await.code(), "unauthenticated");
}

#[tokio::test]
async fn the_switches_of_the_demonstration_reach_no_further_than_it() {
    let site = Site::start().await;
    let client = site.client();
    let pause = |route: &str| json!({ "route": route, "isPaused": true });
    assert_eq!(
        client
            .post("/community/demo/pause", &pause("community-realtime"))
            .await
            .code(),
        "invalid"
    );
    assert_eq!(
        client
            .post("/community/demo/pause", &pause("notification"))
            .await
            .status,
        204
    );
    assert_eq!(
        client
            .post("/community/demo/lose", &json!({ "frames": 101 }))
            .await
            .code(),
        "invalid"
    );
    assert_eq!(
        client
            .post("/community/demo/lose", &json!({ "frames": 1 }))
            .await
            .status,
        204
    );
    assert_eq!(client.get("/community/demo/none.js").await.code(), "not_found");
}

/// Types into the form of a member.
fn say(member: i64, form: &str, text: &str) -> String {
    format!(
        "(() => {{ const form = document.querySelector('#member-{member} {form} form'); \
         form.querySelector('input').value = {}; form.requestSubmit(); }})()",
        json!(text)
    )
}

#[tokio::test]
async fn the_demonstration_shows_that_nothing_is_missing() {
    let mut stand = Stand::start().await;
    let page = stand
        .browser
        .open(&format!("{}/community/demo", stand.site.url()))
        .await;
    stand.run(&page, "globalThis.until = async (is) => { while (!is()) await new Promise((done) => setTimeout(done, 20)); return true; }").await;
    let all = |selector: &str| format!("[...document.querySelectorAll({})]", json!(selector));
    stand
        .until(&page, &format!("{}.length === 2", all(".phone[data-state=open]")))
        .await;
    stand.run(&page, &say(1, ".chat", "hello")).await;
    stand
        .until(&page, &format!("{}.length === 1", all("#member-1 .tick.stored")))
        .await;
    stand
        .until(
            &page,
            &format!(
                "{}.some((text) => text.textContent === 'hello')",
                all("#member-2 .bubble p")
            ),
        )
        .await;
    stand.run(&page, &say(2, ".post", "nice")).await;
    stand
        .until(&page, "document.querySelector('#member-1 .badge').textContent === '1'")
        .await;
    // Both are away while others write, and frames are lost; the page has the proof.
    let click = |key: &str| format!("document.querySelector('#breaks [data-break={key}]').click()");
    stand.run(&page, &click("breakUnplug")).await;
    stand
        .until(&page, &format!("{}.length === 2", all("#log .proof")))
        .await;
    let proofs = stand
        .run(
            &page,
            &format!("{}.map((fact) => fact.textContent)", all("#log .fact:is(.good, .bad)")),
        )
        .await;
    assert_eq!(proofs, json!(["gaps 0", "duplicates 0", "gaps 0", "duplicates 0"]));
    stand.run(&page, &click("breakLose")).await;
    stand
        .until(&page, &format!("{}.length > 0", all("#numbers .cell.missing")))
        .await;
    stand
        .until(&page, &format!("{}.length === 0", all("#numbers .strip .cell.missing")))
        .await;
    // The oldest connection gives way to a fourth, and comes back when it is asked.
    stand.run(&page, &click("breakDevices")).await;
    stand
        .until(&page, "document.querySelector('#member-1').dataset.state === 'evicted'")
        .await;
    stand
        .run(&page, "document.querySelector('#member-1 .state button').click()")
        .await;
    stand
        .until(&page, "document.querySelector('#member-1').dataset.state === 'open'")
        .await;
    stand
        .run(&page, "document.querySelector('[data-language=ko]').click()")
        .await;
    assert_eq!(
        stand
            .run(&page, "document.querySelector('#member-2 h2').textContent")
            .await,
        "준"
    );
    assert_eq!(
        stand.run(&page, "document.querySelector('#failure').hidden").await,
        true
    );
    stand.assert_no_errors(&page).await;
}
