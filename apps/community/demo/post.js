// The post that both members see, with its counts.

const LOOK_MS = 1_000;
const LIKED = "postroom.demo.liked"; // the members; the API tells the number alone

export async function openPost(author, reader) {
  const listeners = [], liked = new Set(JSON.parse(localStorage.getItem(LIKED) ?? "[]"));
  const post = {
    id: undefined, likeCount: 0, commentCount: 0, overlay: 0, comments: [],
    onChange: (listener) => listeners.push(listener),
    isLikedBy: (member) => liked.has(member.id),
    async like(member) {
      const isLiked = !liked.delete(member.id);
      if (isLiked) liked.add(member.id);
      localStorage.setItem(LIKED, JSON.stringify([...liked]));
      await (isLiked ? member.api.put : member.api.remove)(`/community/posts/${post.id}/like`);
      await look();
    },
    async comment(member, body) {
      await member.api.post(`/community/posts/${post.id}/comments`, { body });
      await look();
    },
    async removeComment(member, commentId) {
      await member.api.remove(`/community/comments/${commentId}`);
      await look();
    },
    // A like of a post of its own, so that each is a new one.
    async likeNew(by, member) {
      const { postId } = await by.api.post("/community/posts", { title: "❄", body: "❄" });
      await member.api.put(`/community/posts/${postId}/like`);
    },
  };

  async function look() {
    const [found, { comments }] = await Promise.all([author.api.get(`/community/posts/${post.id}`), author.api.get(`/community/posts/${post.id}/comments`)]);
    Object.assign(post, { likeCount: found.likeCount, commentCount: found.commentCount, overlay: found.commentOverlay ?? 0, comments: [...comments].reverse() });
    listeners.forEach((listener) => listener());
  }

  async function watch() {
    if (document.visibilityState === "visible") await look().catch(() => {});
    setTimeout(watch, LOOK_MS);
  }

  const { posts } = await author.api.get("/community/posts?limit=100");
  const own = posts.find((known) => known.title === "snow" && known.authorId === author.id);
  post.id = (own ?? await author.api.post("/community/posts", { title: "snow", body: "snow" })).postId;
  await look();
  watch();
  return post;
}
