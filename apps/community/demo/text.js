// The words of the page, in English and Korean.

const TEXT = {
  en: {
    title: "Two members, one server",
    lede: "Mina and Joon use one small community. Everything between them goes through Postroom. Break something, and watch what each of them receives.",
    language: "Language", theme: "Light or dark", views: "Part of the page", server: "Server",
    numbers: "Numbers received", happened: "What happened",
    numbersHint: "A filled cell arrived, exactly once.",
    legendLive: "arrived", legendLate: "caught up", legendSilent: "muted", legendMissing: "missing",
    streamOf: "{name}’s stream", roomOf: "{name}, room",
    // A member.
    live: "live", throughTab: "live through another tab", connecting: "connecting …", waitingUntil: "again in {s} s", offline: "offline",
    evicted: "signed off", refused: "the server refuses it", closed: "offline", again: "Reconnect",
    follow: "Follow {name}", following: "Following {name}", inbox: "Notifications", readAll: "Mark all as read", mute: "Mute notifications",
    unmute: "Unmute notifications", goOffline: "Go offline", goOnline: "Go online", emptyInbox: "Nothing yet. Joon’s and Mina’s acts land here.",
    like: "Like", unlike: "Take the like back", writeComment: "Write a comment", removeComment: "Delete this comment", overlay: "+{n} not flushed yet",
    flushed: "all in the database", chat: "Chat", writeMessage: "Message to {name}", edit: "Edit", remove: "Delete", save: "Save", send: "Send",
    edited: "edited", removed: "deleted", emptyChat: "Say hello.", tickWaiting: "in this tab: the server does not have it yet",
    tickSending: "it has its place in the room; not in the history yet", tickStored: "stored in the history", tickRefused: "refused: {code}",
    connections: "Connections", ofThree: "{n} of 3", thisPage: "this page", anotherTab: "another tab", device: "device {n}", evict: "Evict", addDevice: "Add a device", since: "since {time}",
    // Notifications.
    POST_LIKE: "{name} likes your post", POST_COMMENT: "{name} commented:",
    FOLLOW: "{name} follows you", VOTE_CLOSED: "A vote has closed", chatFrom: "{name}: {message}",
    // Breaking things.
    breakUnplug: "Unplug both for 6 s", breakUnplugSays: "Messages keep coming meanwhile.",
    breakStorm: "A storm of 25", breakStormSays: "20 comments and 5 likes at once.",
    breakLose: "Lose the next 5 frames", breakLoseSays: "Between database and page.",
    breakDevices: "A fourth connection", breakDevicesSays: "Three are allowed per member.",
    breakNotifications: "Pause notifications", breakNotificationsSays: "Events wait in the outbox, in order.",
    breakStore: "Pause the chat history", breakStoreSays: "Messages arrive; ticks wait.",
    breakTab: "Open another tab", breakTabSays: "It shares the connection of this one.",
    breakKill: "Or stop the program in your terminal, and start it again.",
    postTitle: "The first snow of the year", postBody: "It began at seven, just as the bakery opened. Who else was up?", roomName: "Snow club",
    // The log.
    logOpen: "connected", logShared: "shares the connection of another tab", logReset: "starts from the newest state", logOffline: "went offline",
    logLost: "lost the connection", logEvicted: "was signed off: a newer connection took the place", logMuted: "muted notifications; chat still arrives",
    logUnmuted: "gets notifications again", logResumed: "is back after {s} s", logNothing: "nothing was missed", logNotifications: "stream", logChat: "chat", gaps: "gaps", duplicates: "duplicates",
    logRepaired: "was sent {numbers} without asking: the server found the loss", logStored: "Every waiting message is in the history.",
    logPaused: "The route {route} is paused. Its events wait.", logGoesOn: "The route {route} goes on.", logLose: "The next {n} frames are dropped between database and connections.",
    logStorm: "Joon wrote 20 comments and liked 5 posts within a second.", logDevices: "Mina opened a connection too many.", logServerGone: "The server does not answer.", logServerBack: "The server answers again.",
    logFailed: "{what} failed: {why}", logWelcome: "Ready. Write something, or break something.", logEvict: "disconnected a device",
    failure: "The demo cannot start: {why}",
  },
  ko: {
    title: "두 회원, 하나의 서버",
    lede: "미나와 준이 작은 커뮤니티를 함께 씁니다. 두 사람 사이의 모든 것은 Postroom을 지나갑니다. 무엇이든 고장 내고, 두 사람이 무엇을 받는지 지켜보세요.",
    language: "언어", theme: "밝게 또는 어둡게", views: "화면 부분", server: "서버",
    numbers: "받은 번호", happened: "일어난 일",
    numbersHint: "채워진 칸은 정확히 한 번 도착했습니다.",
    legendLive: "도착", legendLate: "따라잡음", legendSilent: "알림 끔", legendMissing: "빠짐",
    streamOf: "{name}의 스트림", roomOf: "{name}, 채팅방",
    live: "연결됨", throughTab: "다른 탭을 통해 연결됨", connecting: "연결 중 …", waitingUntil: "{s}초 뒤 다시", offline: "오프라인",
    evicted: "연결 종료됨", refused: "서버가 거절했습니다", closed: "오프라인", again: "다시 연결",
    follow: "{name} 팔로우", following: "{name} 팔로우 중", inbox: "알림", readAll: "모두 읽음으로", mute: "알림 끄기",
    unmute: "알림 켜기", goOffline: "오프라인으로", goOnline: "온라인으로", emptyInbox: "아직 없습니다. 두 사람의 활동이 여기에 도착합니다.",
    like: "좋아요", unlike: "좋아요 취소", writeComment: "댓글 쓰기", removeComment: "이 댓글 삭제", overlay: "+{n} 아직 반영 전",
    flushed: "모두 DB에 반영됨", chat: "채팅", writeMessage: "{name}에게 보내기", edit: "수정", remove: "삭제", save: "저장", send: "보내기",
    edited: "수정됨", removed: "삭제된 메시지", emptyChat: "인사를 건네 보세요.", tickWaiting: "이 탭에 있음: 서버에는 아직 없습니다",
    tickSending: "방 안의 순서는 정해졌고, 아직 저장 전입니다", tickStored: "대화 기록에 저장됨", tickRefused: "거절됨: {code}",
    connections: "연결", ofThree: "3개 중 {n}개", thisPage: "이 페이지", anotherTab: "다른 탭", device: "기기 {n}", evict: "내보내기", addDevice: "기기 추가", since: "{time}부터",
    POST_LIKE: "{name} 님이 글을 좋아합니다", POST_COMMENT: "{name} 님의 댓글:",
    FOLLOW: "{name} 님이 팔로우합니다", VOTE_CLOSED: "투표가 끝났습니다", chatFrom: "{name}: {message}",
    breakUnplug: "둘 다 6초 동안 끊기", breakUnplugSays: "그동안에도 메시지는 계속 옵니다.",
    breakStorm: "폭풍 25건", breakStormSays: "댓글 20개와 좋아요 5개가 한꺼번에.",
    breakLose: "다음 프레임 5개 버리기", breakLoseSays: "데이터베이스와 페이지 사이에서.",
    breakDevices: "네 번째 연결", breakDevicesSays: "회원마다 세 개까지입니다.",
    breakNotifications: "알림 멈추기", breakNotificationsSays: "이벤트는 아웃박스에서 기다립니다.",
    breakStore: "대화 저장 멈추기", breakStoreSays: "도착은 하고, 저장만 기다립니다.",
    breakTab: "새 탭 열기", breakTabSays: "이 탭의 연결을 함께 씁니다.",
    breakKill: "또는 터미널에서 프로그램을 끄고 다시 켜 보세요.",
    postTitle: "올해의 첫눈", postBody: "일곱 시, 빵집이 막 문을 열 때 내리기 시작했어요. 또 누가 깨어 있었나요?", roomName: "눈 모임",
    logOpen: "연결되었습니다", logShared: "다른 탭의 연결을 함께 씁니다", logReset: "가장 새로운 상태에서 시작합니다", logOffline: "오프라인이 되었습니다",
    logLost: "연결이 끊겼습니다", logEvicted: "더 새로운 연결에 자리를 내주었습니다", logMuted: "알림을 껐습니다. 채팅은 계속 옵니다",
    logUnmuted: "알림을 다시 받습니다", logResumed: "{s}초 만에 돌아왔습니다", logNothing: "놓친 것이 없습니다", logNotifications: "스트림", logChat: "채팅", gaps: "빠짐", duplicates: "중복",
    logRepaired: "{numbers}번을 받았습니다. 서버가 유실을 스스로 찾아 보냈습니다", logStored: "기다리던 메시지가 모두 저장되었습니다.",
    logPaused: "{route} 경로가 멈췄습니다. 이벤트는 기다립니다.", logGoesOn: "{route} 경로가 다시 움직입니다.", logLose: "다음 프레임 {n}개가 데이터베이스와 연결 사이에서 사라집니다.",
    logStorm: "준이 1초 안에 댓글 20개와 좋아요 5개를 남겼습니다.", logDevices: "미나가 연결을 하나 더 열었습니다.", logServerGone: "서버가 응답하지 않습니다.", logServerBack: "서버가 다시 응답합니다.",
    logFailed: "{what} 실패: {why}", logWelcome: "준비되었습니다. 무언가 쓰거나, 무언가 고장 내 보세요.", logEvict: "기기 하나를 내보냈습니다",
    failure: "데모를 시작할 수 없습니다: {why}",
  },
};

// A conversation while both are away, and short comments.
const LINES = {
  en: ["Are you there?", "The snow is up to the second step.", "I saved you a seat by the window.", "The tram has stopped. I am walking.", "Take the path along the river!", "Hot chocolate is on me."],
  ko: ["거기 있어?", "눈이 두 번째 계단까지 왔어.", "창가에 자리 맡아 뒀어.", "전차가 멈췄어. 걸어가는 중이야.", "강변 길로 와!", "핫초코는 내가 살게."],
};
const COMMENTS = {
  en: ["So quiet.", "Look at the roofs!", "Who builds the first one?", "Wear two pairs of socks.", "The dog loves it.", "More tonight, they say."],
  ko: ["정말 조용하네요.", "지붕 좀 보세요!", "누가 먼저 눈사람을 만들까요?", "양말은 두 켤레!", "강아지가 신났어요.", "밤에 더 온대요."],
};

export const line = (i) => LINES[language][i % LINES[language].length];
export const remark = (i) => COMMENTS[language][i % COMMENTS[language].length];

const NAMES = { ko: { Mina: "미나", Joon: "준" } };
const listeners = [];
export let language = localStorage.getItem("postroom.demo.language") ?? (navigator.language.startsWith("ko") ? "ko" : "en");

export function t(key, values = {}) {
  const text = TEXT[language][key] ?? TEXT.en[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

export const nameOf = (name) => NAMES[language]?.[name] ?? name;

export function onLanguage(listener) {
  listeners.push(listener);
  listener();
}

export function setLanguage(next) {
  language = next;
  localStorage.setItem("postroom.demo.language", next);
  translate();
  listeners.forEach((listener) => listener());
}

// Fills the elements of the document that name a text.
export function translate() {
  document.documentElement.lang = language;
  document.title = `${t("title")} · Postroom`;
  for (const element of document.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
  for (const element of document.querySelectorAll("[data-t-label]")) label(element, t(element.dataset.tLabel));
}

export function label(element, text) {
  element.setAttribute("aria-label", text);
  element.title = text;
}
