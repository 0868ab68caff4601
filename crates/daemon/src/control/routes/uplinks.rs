//! Paths for uplinks and peers.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{delete, get};
use axum::{Json, Router};
use vrdma_api::{Endpoint, Peer, Uplink, paths};

use super::{Daemon, below, parse_body, parse_name, to_the_end};
use crate::control::Control;
use crate::control::answer::Problem;

pub(super) fn router() -> Router<Arc<Control>> {
    Router::new()
        .route(paths::UPLINKS, get(uplinks).post(add_uplink))
        .route(
            &below(paths::UPLINKS, ""),
            get(uplink).delete(remove_uplink),
        )
        .route(paths::PEERS, get(peers).post(add_peer))
        .route(
            &below(paths::UPLINKS, "/peers/{address}"),
            delete(remove_peer),
        )
}

async fn uplinks(State(control): Daemon) -> Result<Json<Vec<Uplink>>, Problem> {
    control.uplinks().await.map(Json)
}

async fn uplink(State(control): Daemon, Path(name): Path<String>) -> Result<Json<Uplink>, Problem> {
    let name = parse_name(&name)?;
    control.uplink(&name).await.map(Json)
}

async fn add_uplink(
    State(control): Daemon,
    body: Bytes,
) -> Result<(StatusCode, Json<Uplink>), Problem> {
    let request = parse_body(&body)?;
    let added = to_the_end(async move { control.add_uplink(&request).await }).await?;
    Ok((StatusCode::CREATED, Json(added)))
}

async fn remove_uplink(
    State(control): Daemon,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    let name = parse_name(&name)?;
    to_the_end(async move { control.remove_uplink(&name).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn peers(State(control): Daemon) -> Json<Vec<Peer>> {
    Json(control.peers())
}

async fn add_peer(
    State(control): Daemon,
    body: Bytes,
) -> Result<(StatusCode, Json<Peer>), Problem> {
    let request = parse_body(&body)?;
    let added = to_the_end(async move { control.add_peer(&request).await }).await?;
    Ok((StatusCode::CREATED, Json(added)))
}

async fn remove_peer(
    State(control): Daemon,
    Path((name, address)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    let name = parse_name(&name)?;
    let address: Endpoint = address
        .parse()
        .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, format!("{error}")))?;
    to_the_end(async move { control.remove_peer(&name, address).await }).await?;
    Ok(StatusCode::NO_CONTENT)
}
