//! Stores that speak TLS: to whom they are trusted, and to whom they are not.

use std::path::Path;

use postroom::{ErrorKind, Outbox as _};
use postroom_mysql::Mysql;
use postroom_postgres::Postgres;
use postroom_testkit::certificate::Certificates;
use postroom_testkit::server;
use sea_orm::{ConnectionTrait, DatabaseConnection, Statement};

async fn ask(db: &DatabaseConnection, sql: &str) -> String {
    let statement = Statement::from_string(db.get_database_backend(), sql);
    let row = db.query_one_raw(statement).await.unwrap().unwrap();
    row.try_get_by_index(0).unwrap()
}

#[tokio::test]
async fn postgres_is_encrypted_and_known() {
    let (certificates, others) = (Certificates::of("postgres"), Certificates::of("postgres"));
    let files = [
        "ssl=on".to_owned(),
        format!("ssl_cert_file={}", certificates.certificate().display()),
        format!("ssl_key_file={}", certificates.key().display()),
    ];
    let server = server::postgres(&files.each_ref().map(String::as_str)).await;
    let trusting = |file: &Path| format!("{}?sslmode=verify-full&sslrootcert={}", server.url(), file.display());
    let store = Postgres::connect(&trusting(&certificates.authority())).await.unwrap();
    let version = ask(
        store.db(),
        "select version from pg_stat_ssl where pid = pg_backend_pid()",
    )
    .await;
    assert!(version.starts_with("TLSv1."), "{version}");
    let error = Postgres::connect(&trusting(&others.authority())).await.unwrap_err();
    assert!(error.report().contains("UnknownIssuer"), "{}", error.report());
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}

#[tokio::test]
async fn mariadb_is_encrypted_and_known() {
    let (certificates, others) = (Certificates::of("mysql"), Certificates::of("mysql"));
    let files = [
        format!("ssl-ca={}", certificates.authority().display()),
        format!("ssl-cert={}", certificates.certificate().display()),
        format!("ssl-key={}", certificates.key().display()),
    ];
    let server = server::mariadb(&files.each_ref().map(String::as_str)).await;
    let trusting = |file: &Path| format!("{}?ssl-mode=VERIFY_IDENTITY&ssl-ca={}", server.url(), file.display());
    let store = Mysql::connect(&trusting(&certificates.authority())).await.unwrap();
    let status = "select variable_value from information_schema.session_status where variable_name = 'Ssl_version'";
    let version = ask(store.db(), status).await;
    assert!(version.starts_with("TLSv1."), "{version}");
    let error = Mysql::connect(&trusting(&others.authority())).await.unwrap_err();
    assert!(error.report().contains("UnknownIssuer"), "{}", error.report());
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
}
