//! Who is connected to the dashboard, and who leaves when there are too many.
//!
//! Each connection has a place. When none is free, the one that has kept us waiting for longest is
//! closed: waiting for the rest of a request, or for the answer to be read. Whoever asks and reads
//! keeps nobody waiting, so slow clients drive out each other and nobody else, however many they
//! are. Where they come from does not matter: behind a proxy all come from one address.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// An answer of which nothing is read for so long is given up.
const UNREAD: Duration = Duration::from_secs(30);

/// How often to look for somebody who may leave, while everybody is being served.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Everybody who is connected.
#[derive(Debug)]
pub(super) struct Crowd {
    places: Arc<Semaphore>,
    callers: Mutex<BTreeMap<u64, Arc<Caller>>>,
}

impl Crowd {
    pub(super) fn of(most: usize) -> Arc<Self> {
        Arc::new(Self { places: Arc::new(Semaphore::new(most)), callers: Mutex::default() })
    }

    /// A place, if need be that of somebody who is waited for.
    pub(super) async fn enter(self: &Arc<Self>) -> Seat {
        loop {
            if self.places.available_permits() == 0 {
                self.send_one_away();
            }
            let place = timeout(LOOK_AGAIN, Arc::clone(&self.places).acquire_owned()).await;
            // Nobody closes the semaphore.
            let Ok(Ok(place)) = place else { continue };
            let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
            let number = callers.last_key_value().map_or(0, |(last, _)| last + 1);
            let caller = Arc::new(Caller::default());
            caller.begins_to_wait(For::Request);
            callers.insert(number, Arc::clone(&caller));
            return Seat { crowd: Arc::clone(self), number, caller, _place: place };
        }
    }

    /// Closes the connection that is waited for longest. None, if all are being served.
    pub(super) fn send_one_away(&self) {
        let callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let here = callers.values().filter(|caller| !caller.leave.is_cancelled());
        let waited_for = here.filter_map(|caller| Some((caller.waited_for_since()?, caller)));
        if let Some((_, caller)) = waited_for.min_by_key(|(since, _)| *since) {
            caller.leave.cancel();
        }
    }
}

/// The place of one connection; free again when this is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    crowd: Arc<Crowd>,
    number: u64,
    caller: Arc<Caller>,
    _place: OwnedSemaphorePermit,
}

impl Seat {
    pub(super) fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// Ends when the place is needed for somebody else.
    pub(super) async fn is_needed(&self) {
        self.caller.leave.cancelled().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut callers = self.crowd.callers.lock().unwrap_or_else(PoisonError::into_inner);
        callers.remove(&self.number);
    }
}

/// What a client is waited for.
#[derive(Clone, Copy)]
enum For {
    Request,
    Body,
    Reading,
}

/// One client, and since when it is waited for.
#[derive(Debug, Default)]
pub(super) struct Caller {
    since: Mutex<[Option<Instant>; 3]>,
    leave: CancellationToken,
}

impl Caller {
    fn begins_to_wait(&self, what: For) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since[what as usize].get_or_insert_with(Instant::now);
    }

    fn waits_no_more(&self, what: For) {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)[what as usize] = None;
    }

    fn waited_for_since(&self) -> Option<Instant> {
        let since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.iter().flatten().min().copied()
    }

    /// A request came: notes when its body has to be waited for.
    pub(super) fn asks(self: &Arc<Self>, body: Incoming) -> Asked {
        self.waits_no_more(For::Request);
        Asked { body, caller: Arc::clone(self) }
    }

    /// An answer goes out: after it the next request is waited for.
    pub(super) fn answered<B>(self: &Arc<Self>, body: B) -> Answered<B> {
        Answered { body, caller: Arc::clone(self) }
    }
}

/// The body of a request.
pub(super) struct Asked {
    body: Incoming,
    caller: Arc<Caller>,
}

impl Body for Asked {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match polled.is_pending() {
            true => self.caller.begins_to_wait(For::Body),
            false => self.caller.waits_no_more(For::Body),
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.caller.waits_no_more(For::Body);
    }
}

/// The body of an answer.
pub(super) struct Answered<B> {
    body: B,
    caller: Arc<Caller>,
}

impl<B: Body + Unpin> Body for Answered<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Answered<B> {
    fn drop(&mut self) {
        self.caller.begins_to_wait(For::Request);
    }
}

/// The connection itself: notes when what is written has to wait until it is read.
pub(super) struct Line<T> {
    stream: T,
    caller: Arc<Caller>,
    unread: Option<Pin<Box<Sleep>>>,
}

impl<T> Line<T> {
    pub(super) fn new(stream: T, caller: &Arc<Caller>) -> Self {
        Self { stream, caller: Arc::clone(caller), unread: None }
    }

    fn note<R>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if polled.is_ready() {
            self.unread = None;
            self.caller.waits_no_more(For::Reading);
            return polled;
        }
        self.caller.begins_to_wait(For::Reading);
        ready!(self.unread.get_or_insert_with(|| Box::pin(sleep(UNREAD))).as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Line<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Line<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.note(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt as _;

    fn has_to_leave(seat: &Seat) -> bool {
        seat.caller.leave.is_cancelled()
    }

    #[tokio::test(start_paused = true)]
    async fn x17_who_is_waited_for_longest_makes_room_and_who_is_served_does_not() {
        let crowd = Crowd::of(3);
        let (served, slow, slower) =
            (crowd.enter().await, crowd.enter().await, crowd.enter().await);
        served.caller.waits_no_more(For::Request);
        slow.caller.waits_no_more(For::Request);
        tokio::time::advance(Duration::from_secs(1)).await;
        slow.caller.begins_to_wait(For::Body);
        crowd.send_one_away();
        assert!(has_to_leave(&slower) && !has_to_leave(&slow) && !has_to_leave(&served));
        drop(slower);
        let new = crowd.enter().await;
        assert!(!has_to_leave(&slow), "there was a place");
        // The connection of the one who is sent away ends; then its place is free.
        let leaving = tokio::spawn(async move {
            slow.is_needed().await;
            drop(slow);
        });
        let newer = crowd.enter().await;
        leaving.await.expect("it left");
        assert!([&served, &new, &newer].iter().all(|seat| !has_to_leave(seat)));
    }

    #[tokio::test(start_paused = true)]
    async fn x17_while_all_are_served_others_wait() {
        let crowd = Crowd::of(1);
        let seat = crowd.enter().await;
        seat.caller.waits_no_more(For::Request);
        let entering = timeout(LOOK_AGAIN * 10, crowd.enter());
        assert!(entering.await.is_err() && !has_to_leave(&seat));
        drop(seat.caller.answered(()));
        let next = tokio::spawn({
            let crowd = Arc::clone(&crowd);
            async move { crowd.enter().await }
        });
        seat.is_needed().await;
        drop(seat);
        next.await.expect("there is a place now");
    }

    #[tokio::test(start_paused = true)]
    async fn x17_an_answer_that_nobody_reads_is_given_up() {
        let (ours, theirs) = tokio::io::duplex(8);
        let caller = Arc::new(Caller::default());
        let mut line = Line::new(ours, &caller);
        line.write_all(b"read me").await.expect("there is room");
        assert_eq!(caller.waited_for_since(), None);
        let error = line.write_all(b" or not").await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(caller.waited_for_since().is_some());
        drop(theirs);
    }
}
