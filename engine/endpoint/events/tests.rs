use super::{Events, TooLong};

/// The events of a stream that comes in pieces of so many bytes.
fn read(stream: &[u8], piece: usize, limit: usize) -> Result<Vec<String>, TooLong> {
    let mut events = Events::default();
    let mut found = Vec::new();
    for piece in stream.chunks(piece) {
        events.feed(piece);
        while let Some(event) = events.next(limit)? {
            found.push(String::from_utf8_lossy(&event).into_owned());
        }
    }
    Ok(found)
}

#[test]
fn events_are_the_same_in_whatever_pieces_they_come() {
    let stream = b": hello\n\nevent: message\ndata: {\"a\": 1}\n\ndata:x\r\ndata: y\r\n\r\nid: 7\n\ndata: half";
    for piece in 1..=stream.len() {
        let events = read(stream, piece, 9);
        let wanted = Ok(vec!["{\"a\": 1}".to_owned(), "x\ny".to_owned()]);
        assert_eq!(events, wanted, "in pieces of {piece}");
    }
}

#[test]
fn an_event_without_a_name_is_a_message() {
    let mut events = Events::default();
    events.feed(b"event: ping\ndata: 1\n\ndata: 2\n\nevent: ping\n\nevent:message\ndata: 3\n\n");
    for (data, is_message) in [("1", false), ("2", true), ("3", true)] {
        assert_eq!(events.next(9), Ok(Some(data.into())));
        assert_eq!(events.was_message(), is_message, "{data}");
    }
}

#[test]
fn an_event_may_be_no_longer_than_its_limit_however_many_there_are() {
    let many = b"data: 12345\n\n".repeat(100);
    for piece in [1, 7, many.len()] {
        assert_eq!(read(&many, piece, 11).map(|it| it.len()), Ok(100));
        assert_eq!(read(&many, piece, 4), Err(TooLong(4)));
    }
    // One that never ends, on one line or on many.
    assert_eq!(read(&[b'x'; 100], 10, 50), Err(TooLong(50)));
    assert_eq!(read(&b"data: x\n".repeat(100), 10, 50), Err(TooLong(50)));
}
