//! Everything that a database and a Redis hold.

use postroom_testkit::Fresh;
use postroom_testkit::foreign::redis_cli;
use sea_orm::{ConnectionTrait as _, DbBackend, Statement};
use serde_json::Value;

/// All rows of all tables, each with the name of its table.
pub(crate) async fn tables(fresh: &Fresh) -> Vec<(String, Value)> {
    let backend = fresh.db().get_database_backend();
    let names = match backend {
        DbBackend::Postgres => {
            "select quote_ident(table_schema) || '.' || quote_ident(table_name) from information_schema.tables \
             where table_schema not in ('pg_catalog', 'information_schema') and table_type = 'BASE TABLE'"
        }
        _ => "select name from sqlite_master where type = 'table'",
    };
    let mut rows = Vec::new();
    for table in texts(fresh, names).await {
        let select = match backend {
            DbBackend::Postgres => format!("select row_to_json(t)::text from {table} t"),
            _ => {
                let columns = texts(fresh, &format!("select name from pragma_table_info('{table}')")).await;
                let columns: Vec<String> = columns.iter().map(|name| format!("'{name}', \"{name}\"")).collect();
                format!("select json_object({}) from \"{table}\"", columns.join(", "))
            }
        };
        let found = texts(fresh, &select).await;
        rows.extend(found.into_iter().map(|row| (table.clone(), document(&row))));
    }
    rows
}

async fn texts(fresh: &Fresh, sql: &str) -> Vec<String> {
    let statement = Statement::from_string(fresh.db().get_database_backend(), sql);
    let rows = fresh.db().query_all_raw(statement).await;
    let rows = rows.unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.iter().map(|row| row.try_get_by_index(0).unwrap()).collect()
}

/// All keys with their values, as redis-cli shows them.
pub(crate) fn redis(url: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for key in redis_cli(url, &["--raw", "KEYS", "*"]).lines() {
        let read: &[&str] = match redis_cli(url, &["--raw", "TYPE", key]).trim() {
            "string" => &["GET", key],
            "list" => &["LRANGE", key, "0", "-1"],
            "set" => &["SMEMBERS", key],
            "zset" => &["ZRANGE", key, "0", "-1", "WITHSCORES"],
            "hash" => &["HGETALL", key],
            "stream" => &["XRANGE", key, "-", "+"],
            other => panic!("{key} is a {other}"),
        };
        found.push(Value::String(key.to_owned()));
        let shown = redis_cli(url, &[&["--raw"], read].concat());
        found.extend(shown.lines().map(document));
    }
    found
}

/// A text as it is read: texts that are JSON are documents, also inside of documents.
pub(crate) fn document(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => opened(value),
        _ => Value::String(text.to_owned()),
    }
}

fn opened(value: Value) -> Value {
    match value {
        Value::String(text) if text.starts_with(['{', '[']) => document(&text),
        Value::Array(items) => items.into_iter().map(opened).collect(),
        Value::Object(fields) => fields.into_iter().map(|(name, value)| (name, opened(value))).collect(),
        other => other,
    }
}
