//! Paths to handlers. Each handler reads its input, calls [`Control`] and wraps the answer.

mod migration;
mod uplinks;

use std::future::Future;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, DefaultBodyLimit, Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::de::DeserializeOwned;
use vrdma_api::{Adapter, AdapterState, AdapterStats, Name, PortGroup, Status, Usage, paths};

use super::Control;
use super::answer::Problem;
use super::hold::Connection;
use super::usage;

/// Limit on a request body: the longest real one has some 200 bytes.
const BODY_BYTES_MAX: usize = 64 << 10;

type Daemon = State<Arc<Control>>;

pub(super) fn router(control: Arc<Control>) -> Router {
    Router::new()
        .route(paths::STATUS, get(status))
        .route(paths::STATS, get(stats))
        .route(paths::USERS, get(users))
        .route(paths::PORTGROUPS, get(portgroups).post(add_portgroup))
        .route(
            &below(paths::PORTGROUPS, ""),
            get(portgroup)
                .patch(change_portgroup)
                .delete(remove_portgroup),
        )
        .route(paths::ADAPTERS, get(adapters).post(add_adapter))
        .route(
            &below(paths::ADAPTERS, ""),
            get(adapter).patch(change_adapter).delete(remove_adapter),
        )
        .route(&below(paths::ADAPTERS, "/stats"), get(adapter_stats))
        .route(&below(paths::ADAPTERS, "/state"), get(adapter_state))
        .route(&below(paths::ADAPTERS, "/trace"), post(adapter_trace))
        .route(&below(paths::ADAPTERS, "/hold"), post(hold_adapter))
        .route(&below(paths::ADAPTERS, "/move"), post(move_adapter))
        .merge(uplinks::router())
        .merge(migration::router())
        .fallback(async || {
            Problem::new(
                StatusCode::NOT_FOUND,
                "there is no such path; see the table of paths in the API's description",
            )
        })
        .method_not_allowed_fallback(async || {
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "this path does not take this method",
            )
        })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(control)
}

fn below(path: &str, rest: &str) -> String {
    format!("{path}/{{name}}{rest}")
}

async fn status(State(control): Daemon) -> Json<Status> {
    Json(control.status().await)
}

async fn stats(State(control): Daemon) -> Result<Json<Vec<AdapterStats>>, Problem> {
    control.stats().await.map(Json)
}

async fn users(State(control): Daemon) -> Json<Usage> {
    Json(usage::of(&control.shards.known().processes.users))
}

async fn portgroups(State(control): Daemon) -> Json<Vec<PortGroup>> {
    Json(control.inventory().portgroups())
}

async fn portgroup(
    State(control): Daemon,
    Path(name): Path<String>,
) -> Result<Json<PortGroup>, Problem> {
    let name = parse_name(&name)?;
    control.portgroup(&name).await.map(Json)
}

async fn add_portgroup(
    State(control): Daemon,
    body: Bytes,
) -> Result<(StatusCode, Json<PortGroup>), Problem> {
    let request = parse_body(&body)?;
    let added = to_the_end(async move { control.add_portgroup(&request).await }).await?;
    Ok((StatusCode::CREATED, Json(added)))
}

async fn change_portgroup(
    State(control): Daemon,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<PortGroup>, Problem> {
    let name = parse_name(&name)?;
    let change = parse_body(&body)?;
    let changed = to_the_end(async move { control.change_portgroup(&name, &change).await });
    changed.await.map(Json)
}

async fn remove_portgroup(
    State(control): Daemon,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    let name = parse_name(&name)?;
    to_the_end(async move { control.remove_portgroup(&name).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn adapters(State(control): Daemon) -> Json<Vec<Adapter>> {
    Json(control.inventory().adapters())
}

async fn adapter(
    State(control): Daemon,
    Path(name): Path<String>,
) -> Result<Json<Adapter>, Problem> {
    let name = parse_name(&name)?;
    Ok(Json(control.inventory().adapter(&name)?))
}

async fn add_adapter(
    State(control): Daemon,
    body: Bytes,
) -> Result<(StatusCode, Json<Adapter>), Problem> {
    let request = parse_body(&body)?;
    let added = to_the_end(async move { control.add_adapter(&request).await }).await?;
    Ok((StatusCode::CREATED, Json(added)))
}

async fn change_adapter(
    State(control): Daemon,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<Adapter>, Problem> {
    let name = parse_name(&name)?;
    let change = parse_body(&body)?;
    let changed = to_the_end(async move { control.change_adapter(&name, &change).await });
    changed.await.map(Json)
}

async fn remove_adapter(
    State(control): Daemon,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    let name = parse_name(&name)?;
    to_the_end(async move { control.remove_adapter(&name).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn adapter_stats(
    State(control): Daemon,
    Path(name): Path<String>,
) -> Result<Json<AdapterStats>, Problem> {
    let name = parse_name(&name)?;
    control.adapter_stats(&name).await.map(Json)
}

async fn move_adapter(
    State(control): Daemon,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<Adapter>, Problem> {
    let name = parse_name(&name)?;
    let request = parse_body(&body)?;
    let moved = to_the_end(async move { control.move_adapter(&name, &request).await });
    moved.await.map(Json)
}

async fn hold_adapter(
    State(control): Daemon,
    ConnectInfo(connection): ConnectInfo<Connection>,
    Path(name): Path<String>,
) -> Result<Body, Problem> {
    let name = parse_name(&name)?;
    control.hold(name, connection).await.map(Body::new)
}

async fn adapter_state(
    State(control): Daemon,
    Path(name): Path<String>,
) -> Result<Json<AdapterState>, Problem> {
    let name = parse_name(&name)?;
    control.adapter_state(&name).await.map(Json)
}

async fn adapter_trace(
    State(control): Daemon,
    Path(name): Path<String>,
) -> Result<Vec<u8>, Problem> {
    let name = parse_name(&name)?;
    control.trace(&name).await
}

fn parse_name(text: &str) -> Result<Name, Problem> {
    text.parse()
        .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, format!("{error}")))
}

fn parse_body<T: DeserializeOwned>(body: &Bytes) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        Problem::new(
            StatusCode::BAD_REQUEST,
            format!("the request is wrong: {}", sentence(&error)),
        )
    })
}

/// Describes an error in JSON. Lines and columns help with malformed JSON only: the text that `vrdma` sends is never
/// seen by a person.
fn sentence(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((sentence, _)) if error.is_data() => sentence.to_owned(),
        _ => text,
    }
}

/// Carries a change out in a task of its own: the server drops a handler whose client hangs up, and that would leave
/// half a change.
async fn to_the_end<T: Send + 'static>(
    change: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Problem> {
    match tokio::spawn(change).await {
        Ok(outcome) => outcome,
        Err(error) => Err(Problem::internal(format!("the change failed: {error}"))),
    }
}
