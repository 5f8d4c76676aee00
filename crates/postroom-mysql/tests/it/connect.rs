//! How users log in.

use postroom_mysql::Mysql;
use uuid::Uuid;

use crate::fresh::{Fresh, administer};

/// MySQL hides a password that it has not seen since it started from connections that are not encrypted; MariaDB does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_password_without_encryption_works_or_says_what_to_do() {
    let fresh = Fresh::migrated().await;
    let user = format!("u{}", &Uuid::now_v7().simple().to_string()[12..]);
    administer(&format!("create user {user} identified by 'secret'")).await;
    administer(&format!("grant all on *.* to {user}")).await;
    let url = fresh.url.replace("postroom@", &format!("{user}:secret@"));

    match Mysql::connect(&format!("{url}?ssl-mode=disabled")).await {
        Ok(_) => {}
        Err(error) => assert!(
            error.report().contains("remove ssl-mode=disabled"),
            "{}",
            error.report()
        ),
    }
    Mysql::connect(&url).await.unwrap();
    // The server has seen it now.
    Mysql::connect(&format!("{url}?ssl-mode=disabled")).await.unwrap();
    administer(&format!("drop user {user}")).await;
    fresh.gone().await;
}
