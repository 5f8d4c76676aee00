//! A JSON body whose rejection is a problem like any other.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::problem::Problem;

/// The request's JSON body, which must be an object: the fields of a list have no names, so a list of values would be taken for the
/// fields in their order.
#[derive(Clone, Copy, Debug)]
pub struct Body<T>(pub T);

impl<T, S> FromRequest<S> for Body<T>
where
    T: DeserializeOwned,
    S: Send + Sync,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let text = Bytes::from_request(Request::from_parts(parts.clone(), body), state).await?;
        let is_list = text.trim_ascii_start().starts_with(b"[");
        let whole = Request::from_parts(parts, text.into());
        if is_list {
            // A media type that is wrong, or a text that is no JSON, is said first.
            let Json(IgnoredAny) = Json::from_request(whole, state).await?;
            return Err(Problem::invalid(
                "the body is a list; it must be an object with named fields",
            ));
        }
        let Json(body) = Json::from_request(whole, state).await?;
        Ok(Self(body))
    }
}
