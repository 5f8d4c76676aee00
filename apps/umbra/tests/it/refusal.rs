//! Requests that break a rule: each has a stable code and changes nothing.

use postroom_testkit::Fresh;
use serde_json::{Value, json};

use crate::site::{Site, text};

/// Requests and their answers. The bot is installed in g1 (with a subscription) and g4, removed from g2, and g3 is deleted.
const REFUSED: &str = r#"
POST /subscriptions 422 unknown_plan {"guild_id":"g4","user_id":"ADA","plan_code":"gold"}
POST /subscriptions 422 unknown_plan {"guild_id":"g4","user_id":"ADA","plan_code":"free"}
POST /subscriptions 404 unknown_guild {"guild_id":"nowhere","user_id":"ADA","plan_code":"pro"}
POST /subscriptions 409 not_installed {"guild_id":"g2","user_id":"ADA","plan_code":"pro"}
POST /subscriptions 409 no_billing_key {"guild_id":"g4","user_id":"BOB","plan_code":"pro"}
POST /subscriptions 409 already_subscribed {"guild_id":"g1","user_id":"ADA","plan_code":"pro"}
POST /subscriptions 422 invalid {"guild_id":"g1"}
POST /subscriptions/SUBSCRIPTION/upgrade 409 not_an_upgrade {"plan_code":"pro"}
POST /subscriptions/SUBSCRIPTION/downgrade 409 not_a_downgrade {"plan_code":"business"}
POST /subscriptions/SUBSCRIPTION/upgrade 422 unknown_plan {"plan_code":"gold"}
POST /subscriptions/none/cancel 404 unknown_subscription {"cancel_at_period_end":true}
POST /guilds 409 already_installed {"guild_id":"g1","installer_user_id":"1"}
POST /guilds 409 guild_deleted {"guild_id":"g3","installer_user_id":"1"}
POST /guilds 422 invalid {"guild_id":"No Such Id","installer_user_id":"1"}
POST /guilds/g2/kick 409 not_installed null
POST /guilds/nowhere/kick 404 unknown_guild null
PUT /guilds/g1/owner 409 same_owner {"owner_id":"ADA"}
DELETE /guilds/g3 409 guild_deleted null
POST /users 409 already_registered {"discord_user_id":"1001"}
POST /users/nobody/sessions 404 unknown_user null
POST /users/nobody/billing-keys 404 unknown_user {"card_token":"visa"}
DELETE /billing-keys/none 404 unknown_billing_key null
POST /guilds/g2/snapshots 409 not_installed {"trigger":"manual"}
DELETE /snapshots/none 404 unknown_snapshot null
POST /snapshots/none/restores 404 unknown_snapshot null
POST /restores/none/complete 404 unknown_restore {"result_summary":"all"}
POST /restores/RESTORE/complete 409 restore_over {"result_summary":"all"}
POST /members/none/restore 404 unknown_member {"roles":["mod"]}
POST /guilds/g1/anti-nuke 422 invalid {"detected_pattern":"x","suspects":[]}
POST /guilds/g2/anti-nuke/actions 409 not_installed {"actions_taken":["x"]}
GET /guilds/nowhere/license 404 unknown_license null
GET /guilds/nowhere/subscription 404 unknown_subscription null
GET /guilds/%00 422 invalid null
DELETE /guilds/%00 422 invalid null
POST /guilds/%00/kick 422 invalid null
PUT /guilds/%00/owner 422 invalid {"owner_id":"1"}
GET /guilds/%00/license 422 invalid null
GET /guilds/%00/subscription 422 invalid null
POST /guilds/%00/members 422 invalid {"slug":"x"}
POST /guilds/%00/snapshots 422 invalid {"trigger":"manual"}
POST /guilds/%00/anti-nuke 422 invalid {"detected_pattern":"x","suspects":["y"]}
POST /guilds/%00/anti-nuke/actions 422 invalid {"actions_taken":["x"]}
GET /subscriptions/%00 422 invalid null
POST /subscriptions/%00/cancel 422 invalid {"cancel_at_period_end":true}
POST /subscriptions/%00/upgrade 422 invalid {"plan_code":"business"}
POST /subscriptions/%00/downgrade 422 invalid {"plan_code":"pro"}
DELETE /billing-keys/%00 422 invalid null
POST /users/%00/billing-keys 422 invalid {"card_token":"visa"}
POST /users/%00/sessions 422 invalid null
GET /users/%00/notices 422 invalid null
DELETE /snapshots/%00 422 invalid null
POST /snapshots/%00/restores 422 invalid null
POST /restores/%00/complete 422 invalid {"result_summary":"all"}
POST /restores/%00/fail 422 invalid {"error_summary":"x"}
POST /members/%00/restore 422 invalid {"roles":["mod"]}
GET /users/ADA/notices?after=%00 422 invalid null
GET /users/ADA/notices?limit=x 422 invalid null
GET /users/ADA/notices?page=1 422 invalid null
GET /audit/%00/g1 422 invalid null
GET /audit/Guild/%00 422 invalid null
GET /guilds/No%20Such%20Id 422 invalid null
GET /guilds/%FF 400 malformed null
"#;

on_each_database! {
    refused: u_01_refusals_change_nothing_sqlite, u_01_refusals_change_nothing_postgres,
        u_01_refusals_change_nothing_mariadb;
}

async fn refused(fresh: Fresh) {
    let site = Site::open(fresh).await;
    let ada = site.user("1001", "visa").await;
    let bob = text(
        &site.post("/users", json!({ "discord_user_id": "1002" })).await,
        "user_id",
    );
    for guild_id in ["g1", "g2", "g3", "g4"] {
        site.guild(guild_id, &ada).await;
    }
    site.ok("POST", "/guilds/g2/kick", Value::Null).await;
    site.ok("DELETE", "/guilds/g3", Value::Null).await;
    let subscription = site.subscription("g1", &ada).await;
    let restore = ended_restore(&site).await;
    site.quiet().await;
    let before = (site.rows().await, site.events().await, site.cards.asked());

    for line in REFUSED.lines().filter(|line| !line.is_empty()) {
        let names = [
            ("ADA", &ada),
            ("BOB", &bob),
            ("SUBSCRIPTION", &subscription),
            ("RESTORE", &restore),
        ];
        let line = names
            .into_iter()
            .fold(line.to_owned(), |line, (name, id)| line.replace(name, id));
        let [method, path, status, code, body] = line.splitn(5, ' ').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let body: Value = serde_json::from_str(body).unwrap();
        let (answered, problem) = site.request(method, path, &body).await;
        assert_eq!(answered.to_string(), status, "{line}: {problem}");
        assert_eq!(problem["code"], code, "{line}: {problem}");
    }
    site.quiet().await;
    assert_eq!(before.0, site.rows().await);
    assert_eq!(before.1, site.events().await);
    assert_eq!(before.2, site.cards.asked(), "no card was asked");
    site.stage.close().await;
}

async fn ended_restore(site: &Site) -> String {
    let snapshot = site.post("/guilds/g1/snapshots", json!({ "trigger": "manual" })).await;
    let path = format!("/snapshots/{}/restores", text(&snapshot, "snapshot_id"));
    let restore = text(&site.post(&path, Value::Null).await, "restore_job_id");
    let why = json!({ "error_summary": "gone" });
    site.post(&format!("/restores/{restore}/fail"), why).await;
    restore
}
