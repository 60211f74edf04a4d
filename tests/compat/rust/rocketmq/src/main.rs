//! RocketMQ's gRPC client for Rust in one step of a test; a line of JSON for each thing that happens.
//!
//!   send ENDPOINTS TOPIC COUNT             messages with all their parts, each second one of a group
//!   late ENDPOINTS TOPIC COUNT SECONDS     messages for a later time, a second apart
//!   simple ENDPOINTS TOPIC GROUP COUNT EXPRESSION
//!                                          receive and acknowledge until so many have come
//!   half ENDPOINTS TOPIC COUNT             of three half messages one is committed, one rolled back,
//!                                          one left open until it is asked for, and committed then;
//!                                          until a line comes in
//!
//! ACCESS_KEY and SECRET_KEY are who it is, where they are set.

use rocketmq::conf::{ClientOption, ProducerOption, SimpleConsumerOption};
use rocketmq::error::ClientError;
use rocketmq::model::common::{FilterExpression, FilterType};
use rocketmq::model::message::MessageBuilder;
use rocketmq::model::transaction::{Transaction, TransactionResolution};
use rocketmq::{Producer, SimpleConsumer};
use std::collections::HashMap;
use std::env;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

type Done = Result<(), ClientError>;

#[tokio::main]
async fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    let done = match words[0].as_str() {
        "send" => send(&words[1], &words[2], number(&words[3])).await,
        "late" => late(&words[1], &words[2], number(&words[3]), number(&words[4])).await,
        "simple" => simple(&words[1], &words[2], &words[3], number(&words[4]), &words[5]).await,
        "half" => half(&words[1], &words[2], number(&words[3])).await,
        other => panic!("there is no step {other}"),
    };
    if let Err(error) = done {
        println!("@{{\"refused\": {:?}}}", error.to_string());
        std::process::exit(1);
    }
}

fn number(word: &str) -> i64 {
    word.parse().expect("a number")
}

fn client(endpoints: &str) -> ClientOption {
    let mut option = ClientOption::default();
    option.set_access_url(endpoints);
    option.set_timeout(Duration::from_secs(20)); // 3 s are few where all cores are busy
    option.set_long_polling_timeout(Duration::from_secs(2));
    if let (Ok(key), Ok(secret)) = (env::var("ACCESS_KEY"), env::var("SECRET_KEY")) {
        option.set_access_key(key);
        option.set_secret_key(secret);
    }
    option
}

fn topics(topic: &str) -> ProducerOption {
    let mut option = ProducerOption::default();
    option.set_topics(vec![topic]);
    option
}

async fn producer(endpoints: &str, topic: &str) -> Result<Producer, ClientError> {
    let mut producer = Producer::new(topics(topic), client(endpoints))?;
    producer.start().await?;
    Ok(producer)
}

async fn send(endpoints: &str, topic: &str, count: i64) -> Done {
    let producer = producer(endpoints, topic).await?;
    for number in 0..count {
        let body = format!("rust-{number}");
        let mut building = MessageBuilder::builder()
            .set_topic(topic)
            .set_body(body.clone().into_bytes())
            .set_tag(format!("tag{}", number % 2))
            .set_keys(vec![format!("key-{number}")])
            .set_properties(HashMap::from([("colour", "grün")]));
        if number % 2 == 1 {
            building = building.set_message_group(format!("group-{}", number % 4));
        }
        let receipt = producer.send(building.build()?).await?;
        let (id, transaction) = (receipt.message_id(), receipt.transaction_id());
        println!("@{{\"sent\": {body:?}, \"id\": {id:?}, \"transaction\": {transaction:?}}}");
    }
    producer.shutdown().await
}

async fn late(endpoints: &str, topic: &str, count: i64, seconds: i64) -> Done {
    let producer = producer(endpoints, topic).await?;
    for number in 0..count {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time");
        let at = now.as_secs() as i64 + seconds + number;
        let body = format!("late-{number}");
        let bytes = body.clone().into_bytes();
        let message = MessageBuilder::delay_message_builder(topic, bytes, at).build()?;
        producer.send(message).await?;
        println!("@{{\"sent\": {body:?}, \"at\": {}}}", at * 1_000);
    }
    producer.shutdown().await
}

async fn simple(endpoints: &str, topic: &str, group: &str, count: i64, expression: &str) -> Done {
    let mut option = SimpleConsumerOption::default();
    option.set_topics(vec![topic]);
    option.set_consumer_group(group);
    let mut consumer = SimpleConsumer::new(option, client(endpoints))?;
    consumer.start().await?;
    let wanted = FilterExpression::new(FilterType::Tag, expression);
    let invisible = Duration::from_secs(30);
    let mut done = 0;
    while done < count {
        for one in consumer.receive_with(topic, &wanted, 16, invisible).await? {
            consumer.ack(&one).await?;
            done += 1;
            println!(
                "@{{\"received\": {:?}, \"id\": {:?}, \"tag\": {:?}, \"keys\": {:?}, \
                 \"group\": {:?}, \"colour\": {:?}, \"attempt\": {}}}",
                String::from_utf8_lossy(one.body()),
                one.message_id(),
                one.tag().unwrap_or(""),
                one.keys().join(" "),
                one.message_group().unwrap_or(""),
                one.properties().get("colour").map_or("", |value| value),
                one.delivery_attempt(),
            );
        }
    }
    let more = consumer.receive_with(topic, &wanted, 16, invisible).await?;
    println!("@{{\"more\": {}}}", more.len());
    consumer.shutdown().await
}

async fn half(endpoints: &str, topic: &str, count: i64) -> Done {
    let check = Box::new(|transaction: String, one: rocketmq::model::message::MessageView| {
        let body = String::from_utf8_lossy(one.body()).into_owned();
        println!("@{{\"checked\": {body:?}, \"transaction\": {transaction:?}}}");
        TransactionResolution::COMMIT
    });
    let mut producer = Producer::new_transaction_producer(topics(topic), client(endpoints), check)?;
    producer.start().await?;
    for number in 0..count {
        let body = format!("half {number}");
        let bytes = body.clone().into_bytes();
        let message = MessageBuilder::transaction_message_builder(topic, bytes).build()?;
        let transaction = producer.send_transaction_message(message).await?;
        println!("@{{\"sent\": {body:?}, \"transaction\": {:?}}}", transaction.transaction_id());
        match number % 3 {
            0 => transaction.commit().await?,
            1 => transaction.rollback().await?,
            _ => {}
        }
    }
    let line = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
    line.await.expect("a task").expect("a line");
    producer.shutdown().await
}
