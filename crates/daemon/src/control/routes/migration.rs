//! Paths for adapters that move to another host.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post, put};
use vrdma_api::{
    ArrivedContext, CONTEXT_BYTES_MAX, Destination, FreezeRequest, HandedOverContext, MemoryDigest,
    TrackedAdapter, WrittenMemory, paths,
};

use super::{Daemon, below, parse_body, parse_name, to_the_end};
use crate::control::Control;
use crate::control::answer::Problem;

type Done = Result<StatusCode, Problem>;

pub(super) fn router() -> Router<Arc<Control>> {
    let context = put(keep_context)
        .get(arrived_context)
        .delete(forget_context)
        .layer(DefaultBodyLimit::max(CONTEXT_BYTES_MAX));
    Router::new()
        .route(&below(paths::ADAPTERS, "/track"), post(track))
        .route(&below(paths::ADAPTERS, "/written"), get(written))
        .route(&below(paths::ADAPTERS, "/freeze"), post(freeze))
        .route(&below(paths::ADAPTERS, "/expect"), post(expect))
        .route(&below(paths::ADAPTERS, "/reach"), post(reach))
        .route(&below(paths::ADAPTERS, "/hand-over"), post(hand_over))
        .route(&below(paths::ADAPTERS, "/resend"), post(resend))
        .route(&below(paths::ADAPTERS, "/thaw"), post(thaw))
        .route(&below(paths::ADAPTERS, "/save"), post(save))
        .route(&below(paths::ADAPTERS, "/release"), post(release))
        .route(&below(paths::ADAPTERS, "/context"), context)
        .route(
            &below(paths::ADAPTERS, "/memory-digest"),
            get(memory_digest),
        )
        .route(&below(paths::ADAPTERS, "/restore"), post(restore))
        .route(&below(paths::ADAPTERS, "/activate"), post(activate))
}

async fn track(
    State(control): Daemon,
    Path(name): Path<String>,
) -> Result<Json<TrackedAdapter>, Problem> {
    let name = parse_name(&name)?;
    let tracked = to_the_end(async move { control.track(&name).await });
    tracked.await.map(Json)
}

async fn written(
    State(control): Daemon,
    Path(name): Path<String>,
) -> Result<Json<WrittenMemory>, Problem> {
    let name = parse_name(&name)?;
    control.written(&name).await.map(Json)
}

async fn freeze(
    State(control): Daemon,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Vec<u8>, Problem> {
    let name = parse_name(&name)?;
    let request = match body.is_empty() {
        true => FreezeRequest::default(),
        false => parse_body(&body)?,
    };
    to_the_end(async move { control.freeze(&name, request).await }).await
}

async fn expect(
    State(control): Daemon,
    Path(name): Path<String>,
) -> Result<Json<Destination>, Problem> {
    let name = parse_name(&name)?;
    control.expect(&name).map(Json)
}

async fn reach(State(control): Daemon, Path(name): Path<String>, body: Bytes) -> Done {
    let name = parse_name(&name)?;
    let to = parse_body(&body)?;
    done(control.reach(&name, to).await)
}

async fn hand_over(
    State(control): Daemon,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<HandedOverContext>, Problem> {
    let name = parse_name(&name)?;
    let request = parse_body(&body)?;
    let handed_over = to_the_end(async move { control.hand_over(&name, request).await });
    handed_over.await.map(Json)
}

async fn resend(
    State(control): Daemon,
    Path(name): Path<String>,
) -> Result<Json<WrittenMemory>, Problem> {
    let name = parse_name(&name)?;
    let resent = to_the_end(async move { control.resend(&name).await });
    resent.await.map(Json)
}

async fn save(State(control): Daemon, Path(name): Path<String>) -> Result<Vec<u8>, Problem> {
    let name = parse_name(&name)?;
    to_the_end(async move { control.save(&name).await }).await
}

async fn thaw(State(control): Daemon, Path(name): Path<String>) -> Done {
    let name = parse_name(&name)?;
    done(to_the_end(async move { control.thaw(&name).await }).await)
}

async fn release(State(control): Daemon, Path(name): Path<String>) -> Done {
    let name = parse_name(&name)?;
    done(to_the_end(async move { control.release(&name).await }).await)
}

async fn keep_context(
    State(control): Daemon,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<ArrivedContext>, Problem> {
    let name = parse_name(&name)?;
    let kept = to_the_end(async move { control.keep_context(&name, body).await });
    kept.await.map(Json)
}

async fn arrived_context(
    State(control): Daemon,
    Path(name): Path<String>,
) -> Result<Json<ArrivedContext>, Problem> {
    let name = parse_name(&name)?;
    control.arrived_context(&name).await.map(Json)
}

async fn forget_context(State(control): Daemon, Path(name): Path<String>) -> Done {
    let name = parse_name(&name)?;
    done(to_the_end(async move { control.forget_context(&name).await }).await)
}

async fn memory_digest(
    State(control): Daemon,
    Path(name): Path<String>,
) -> Result<Json<MemoryDigest>, Problem> {
    let name = parse_name(&name)?;
    control.memory_digest(&name).await.map(Json)
}

async fn restore(State(control): Daemon, Path(name): Path<String>, body: Bytes) -> Done {
    let name = parse_name(&name)?;
    let request = parse_body(&body)?;
    done(to_the_end(async move { control.restore(&name, &request).await }).await)
}

async fn activate(State(control): Daemon, Path(name): Path<String>) -> Done {
    let name = parse_name(&name)?;
    done(to_the_end(async move { control.activate(&name).await }).await)
}

fn done(outcome: Result<(), Problem>) -> Done {
    outcome.map(|()| StatusCode::NO_CONTENT)
}
