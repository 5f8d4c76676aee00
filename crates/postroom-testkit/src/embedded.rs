//! An example service that has Postroom inside, as a process of its own.

#![expect(clippy::panic, reason = "a test harness: an example that does not run has failed")]

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use postroom_proof::process::Process;
use sea_orm::{ConnectionTrait, Statement};
use serde_json::json;

use crate::Fresh;
use crate::client::Client;
use crate::wait::until;

/// A program that takes orders at `POST /orders` and adds up `sales.total`.
#[derive(Debug)]
pub struct Embedded<'a> {
    program: &'a Path,
    fresh: &'a Fresh,
    address: String,
}

impl<'a> Embedded<'a> {
    /// The program on this database, on a free port.
    pub fn new(program: &'a str, fresh: &'a Fresh) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.unwrap_or_else(|error| panic!("find a free port: {error}"));
        Self {
            program: Path::new(program),
            fresh,
            address: address.to_string(),
        }
    }

    fn start(&self) -> Process {
        let mut command = Command::new(self.program);
        command
            .env("DATABASE_URL", self.fresh.url())
            .env("LISTEN", &self.address);
        Process::run(&mut command).unwrap_or_else(|error| panic!("start {}: {error}", self.program.display()))
    }

    async fn order(&self, order_id: &str, total: i64) -> u16 {
        let client = Client(self.address.clone());
        let body = json!({"order_id": order_id, "total": total}).to_string();
        let answered = client.send("POST", "/orders", &[], &body).await;
        answered.map_or(0, |answer| answer.status)
    }

    async fn total(&self) -> Option<i64> {
        let db = self.fresh.db();
        let select = Statement::from_string(db.get_database_backend(), "select total from sales");
        let row = db.query_one_raw(select).await.ok()??;
        row.try_get("", "total").ok()
    }
}

/// Orders count once each, also those that are committed right before the process is killed. An order that is refused counts
/// nothing.
pub async fn sells(service: &Embedded<'_>) {
    let mut process = service.start();
    until("the service answers", || async {
        service.order("1", 4200).await == 201
    })
    .await;
    until("the first order counts", || async {
        service.total().await == Some(4200)
    })
    .await;
    let refused = service.order("1", 4200).await;
    assert_ne!(refused, 201, "an order id exists once");
    assert_eq!(service.order("2", 1300).await, 201);
    process
        .kill9()
        .unwrap_or_else(|error| panic!("kill the service: {error}"));
    let _again = service.start();
    until("the second order counts", || async {
        service.total().await == Some(5500)
    })
    .await;
    until("a third order is taken", || async {
        service.order("3", 1).await == 201
    })
    .await;
    until("the third order counts", || async {
        service.total().await == Some(5501)
    })
    .await;
}
