//! HTTP routes of a module, with their requirements for callers.

use axum::Router;
use axum::extract::Extension;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, on};
use serde::Serialize;

use crate::access::Access;
use crate::host::Host;

/// HTTP routes that ask the same of their callers. There is no route without an [`Access`].
///
/// ```
/// use postroom_host::{Access, Caller, Routes};
///
/// async fn show() -> &'static str { "an order" }
/// async fn place(caller: Caller) -> String { format!("an order of {}", caller.name()) }
///
/// let routes = Routes::new(Access::Service)
///     .get("/shop/orders/{order_id}", show)
///     .post("/shop/orders", place);
/// assert_eq!(routes.operations().len(), 2);
/// ```
#[derive(Clone, Debug)]
pub struct Routes {
    access: Access,
    pub(crate) router: Router<Host>,
    operations: Vec<Operation>,
}

/// A method at a path, and its requirement for callers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Operation {
    /// The method.
    #[serde(serialize_with = "method_name")]
    pub method: Method,
    /// The path, with its parameters in braces.
    pub path: String,
    /// The requirement for its callers.
    pub access: Access,
}

fn method_name<S: serde::Serializer>(method: &Method, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(method.as_str())
}

impl Routes {
    /// No route yet; those that are added ask this of their callers.
    pub fn new(access: Access) -> Self {
        Self {
            access,
            router: Router::new(),
            operations: Vec::new(),
        }
    }

    /// Adds a route for GET, and for HEAD.
    #[must_use]
    pub fn get<H: Handler<T, Host>, T: 'static>(self, path: &str, handler: H) -> Self {
        self.on(Method::GET, MethodFilter::GET, path, handler)
    }

    /// Adds a route for POST.
    #[must_use]
    pub fn post<H: Handler<T, Host>, T: 'static>(self, path: &str, handler: H) -> Self {
        self.on(Method::POST, MethodFilter::POST, path, handler)
    }

    /// Adds a route for PUT.
    #[must_use]
    pub fn put<H: Handler<T, Host>, T: 'static>(self, path: &str, handler: H) -> Self {
        self.on(Method::PUT, MethodFilter::PUT, path, handler)
    }

    /// Adds a route for PATCH.
    #[must_use]
    pub fn patch<H: Handler<T, Host>, T: 'static>(self, path: &str, handler: H) -> Self {
        self.on(Method::PATCH, MethodFilter::PATCH, path, handler)
    }

    /// Adds a route for DELETE.
    #[must_use]
    pub fn delete<H: Handler<T, Host>, T: 'static>(self, path: &str, handler: H) -> Self {
        self.on(Method::DELETE, MethodFilter::DELETE, path, handler)
    }

    fn on<H: Handler<T, Host>, T: 'static>(
        mut self,
        method: Method,
        filter: MethodFilter,
        path: &str,
        handler: H,
    ) -> Self {
        self.router = self.router.route(path, on(filter, handler));
        self.operations.push(Operation {
            method,
            path: path.to_owned(),
            access: self.access,
        });
        self
    }

    /// Gives the handlers of the routes that were added until now a value, which they take as `Extension<T>`.
    #[must_use]
    pub fn extension<T: Clone + Send + Sync + 'static>(mut self, value: T) -> Self {
        self.router = self.router.layer(Extension(value));
        self
    }

    /// The requirement of the routes for their callers.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The routes that were added.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }
}
