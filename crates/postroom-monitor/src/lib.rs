//! Metrics and readiness of a relay, for any HTTP server.
//!
//! [`Metrics::text`] renders the page that the daemon serves at `/metrics`, [`Readiness::check`] judges what it serves at
//! `/health/ready`. Both need a store and a [`postroom::Relay`], and no HTTP server: mount them on your own.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use axum::http::{StatusCode, header};
//! use axum::routing::get;
//! use axum::{Json, Router};
//! use postroom::{CancellationToken, Inspect, Outbox, Relay};
//! use postroom_monitor::{Metrics, Readiness};
//!
//! async fn run(store: Arc<dyn Inspect>, stop: CancellationToken) -> Result<(), postroom::BoxError> {
//!     let outbox: Arc<dyn Outbox> = Arc::clone(&store) as _;
//!     let relay = Relay::new(outbox); // … with your routes and subscribers
//!     let metrics = Metrics::new(Arc::clone(&store), &relay);
//!     let readiness = Readiness::new(store, &relay);
//!
//!     let page = metrics.clone();
//!     let app: Router = Router::new()
//!         .route("/metrics", get(async move || match page.text() {
//!             Ok(text) => Ok(([(header::CONTENT_TYPE, Metrics::CONTENT_TYPE)], text)),
//!             Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
//!         }))
//!         .route("/ready", get(async move || {
//!             let report = readiness.check().await;
//!             let code = if report.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
//!             (code, Json(report))
//!         }));
//!
//!     let listener = tokio::net::TcpListener::bind("127.0.0.1:9000").await?;
//!     let server = axum::serve(listener, app).with_graceful_shutdown(stop.clone().cancelled_owned());
//!     let (relay, metrics, server) = tokio::join!(relay.run(stop.clone()), metrics.run(stop.clone()), server);
//!     relay.and(metrics)?;
//!     Ok(server?)
//! }
//! ```

mod health;
mod metrics;

pub use health::{Readiness, ReadinessReport};
pub use metrics::Metrics;
/// The library in which metrics of your own are written; re-exported, so that its version fits [`Metrics::register`].
pub use prometheus_client;
