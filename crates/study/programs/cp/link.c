#include "link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "say.h"
#include "waiting.h"

static uint64_t work_id(uint64_t what, uint64_t index)
{
    return what << 32 | index;
}

static unsigned char *received_message(const struct link *link, uint32_t index)
{
    return link->messages + (size_t)(LINK_SENDS + index) * WIRE_MESSAGE;
}

unsigned char *link_slot(const struct link *link, uint64_t number)
{
    return link->data + (size_t)(number % link->ring.slots) * link->ring.segment;
}

int link_post_receive(struct link *link, uint32_t index)
{
    struct ibv_sge piece = {
        .addr = (uintptr_t)received_message(link, index),
        .length = WIRE_MESSAGE,
        .lkey = link->message_region->lkey,
    };
    struct ibv_recv_wr work = {.wr_id = work_id(LINK_RECEIVED, index), .sg_list = &piece, .num_sge = 1};
    struct ibv_recv_wr *bad;
    int error = ibv_post_recv(link->id->qp, &work, &bad);
    if (error != 0)
        return say("cannot post a receive: %s", strerror(error));
    return 0;
}

int link_say(struct link *link, enum kind kind, uint64_t value, const char *text)
{
    if (link->sent - link->sent_done >= LINK_SENDS)
        return say("the other side acknowledges nothing");
    uint32_t index = (uint32_t)(link->sent % LINK_SENDS);
    unsigned char *bytes = link->messages + (size_t)index * WIRE_MESSAGE;
    struct message message = {.kind = kind, .value = value};
    snprintf(message.text, sizeof message.text, "%s", text);
    wire_put_message(bytes, &message);
    struct ibv_sge piece = {
        .addr = (uintptr_t)bytes, .length = WIRE_MESSAGE, .lkey = link->message_region->lkey};
    struct ibv_send_wr work = {
        .wr_id = work_id(LINK_SENT, index),
        .sg_list = &piece,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
    };
    struct ibv_send_wr *bad;
    int error = ibv_post_send(link->id->qp, &work, &bad);
    if (error != 0)
        return say("cannot post a send: %s", strerror(error));
    link->sent++;
    return 0;
}

int link_write(struct link *link, uint64_t number, uint32_t bytes)
{
    struct ibv_sge piece = {
        .addr = (uintptr_t)link_slot(link, number),
        .length = bytes,
        .lkey = link->data_region->lkey,
    };
    struct ibv_send_wr work = {
        .wr_id = work_id(LINK_WROTE, number % link->ring.slots),
        .sg_list = &piece,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
        .send_flags = IBV_SEND_SIGNALED,
        .imm_data = htonl((uint32_t)number),
    };
    uint64_t slot = number % link->ring.slots;
    work.wr.rdma.remote_addr = link->ring.address + slot * link->ring.segment;
    work.wr.rdma.rkey = link->ring.rkey;
    struct ibv_send_wr *bad;
    int error = ibv_post_send(link->id->qp, &work, &bad);
    return error == 0 ? 0 : say("cannot post a write: %s", strerror(error));
}

int link_fail(struct link *link, const char *format, ...)
{
    char text[WIRE_TEXT + 1];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (link->established && !link->gone)
        (void)link_say(link, FAILED, 0, text);
    return say("%s", text);
}

static int take_received(struct link *link, const struct ibv_wc *wc, struct link_event *event)
{
    uint32_t index = (uint32_t)wc->wr_id;
    int malformed = 0;
    if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        event->what = LINK_SEGMENT;
        event->number = ntohl(wc->imm_data);
        event->bytes = wc->byte_len;
    } else {
        event->what = LINK_MESSAGE;
        malformed = wire_take_message(received_message(link, index), wc->byte_len, &event->message);
    }
    if (malformed)
        return link_fail(link, "the other side sent something that is no message of vrdma-cp");
    if (event->what == LINK_MESSAGE && event->message.kind == FAILED)
        return say("the other side gave up: %s", event->message.text);
    return link_post_receive(link, index);
}

/* 1: no event, 0: an event, -1: a failure. */
static int take_completion(struct link *link, const struct ibv_wc *wc, struct link_event *event)
{
    if (wc->status == IBV_WC_WR_FLUSH_ERR)
        return say("the other side went away before the end");
    if (wc->status != IBV_WC_SUCCESS)
        return say("the connection broke: %s", ibv_wc_status_str(wc->status));
    switch (wc->wr_id >> 32) {
    case LINK_SENT:
        link->sent_done++;
        return 1;
    case LINK_WROTE:
        event->what = LINK_WRITTEN;
        return 0;
    default:
        return take_received(link, wc, event);
    }
}

int link_next(struct link *link, struct link_event *event)
{
    struct waiting waiting;
    waiting_start(&waiting, link);
    for (;;) {
        struct ibv_wc wc;
        int count = ibv_poll_cq(link->cq, 1, &wc);
        if (count < 0)
            return say("the completion queue cannot be read");
        if (count == 0) {
            if (waiting_step(&waiting) != 0)
                return -1;
            continue;
        }
        int outcome = take_completion(link, &wc, event);
        if (outcome <= 0)
            return outcome;
    }
}
