//! A new event and a new subscriber: added to the shop's module, with no other change.

use postroom::{DomainEvent, Event, Result, Subscriber, Tx, emit, table};
use postroom_testkit::wait::until;
use schemars::JsonSchema;
use sea_orm::ConnectionTrait;
use sea_orm::sea_query::Query;
use serde::{Deserialize, Serialize};

use crate::shop::Shop;

/// The stock of a product was refilled.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct StockReplenishedEventV1 {
    product_id: i64,
}

impl DomainEvent for StockReplenishedEventV1 {
    const TYPE: &'static str = "loopers.stock.replenished.v1";
    const AGGREGATE_TYPE: &'static str = "Stock";

    fn aggregate_id(&self) -> String {
        self.product_id.to_string()
    }
}

async fn note(tx: &mut Tx, event: &Event) -> Result<()> {
    let replenished: StockReplenishedEventV1 = event.decode()?;
    let mut insert = Query::insert();
    insert
        .into_table("replenished")
        .columns(["product_id"])
        .values_panic([replenished.product_id.into()]);
    tx.execute(&insert).await?;
    Ok(())
}

on_every_way! {
    a_new_event_reaches_its_new_subscriber
}

async fn a_new_event_reaches_its_new_subscriber(shop: Shop) {
    let db = shop.fresh.db().clone();
    let create = "create table replenished (product_id bigint not null)";
    db.execute_unprepared(create).await.unwrap();
    let module = commerce::module()
        .event::<StockReplenishedEventV1>()
        .subscriber(Subscriber::matching(
            "commerce-restock",
            [StockReplenishedEventV1::TYPE],
            note,
        ));
    let shop = shop.killed_and_reopened(module).await;

    let lamp = shop.product(100, 1).await;
    let tx = table::begin(&db).await.unwrap();
    emit(&tx, &StockReplenishedEventV1 { product_id: lamp }).await.unwrap();
    tx.commit().await.unwrap();
    let mut select = Query::select();
    select.column("product_id").from("replenished");
    until("the new subscriber has noted it", || async {
        let rows = db.query_all(&select).await.unwrap();
        let noted: Vec<i64> = rows.iter().map(|row| row.try_get("", "product_id").unwrap()).collect();
        assert!(noted.len() <= 1, "{noted:?}");
        noted == [lamp]
    })
    .await;
    shop.view(lamp, 7).await;
    shop.until_counted(lamp, [0, 0, 1]).await;
}
